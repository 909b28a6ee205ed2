"""Layout: which dtypes and strides travel as plain bytes."""

from __future__ import annotations

import torch

from egg_mcp.sandbox.worker.values import dtype_name


def _dtypes() -> dict[str, torch.dtype]:
    found = {entry for entry in vars(torch).values() if isinstance(entry, torch.dtype)}
    # Quantized and sub-byte types have no plain bytes to send.
    odd = ("q", "bits", "uint1", "uint2", "uint3", "uint4", "uint5", "uint7", "float4")
    odd += ("int1", "int2", "int3", "int4", "int5", "int7")
    whole = {"uint16", "uint32", "int16", "int32"}
    names = {dtype_name(dtype): dtype for dtype in found}
    return {n: dtype for n, dtype in names.items() if n in whole or not n.startswith(odd)}


DTYPES = _dtypes()


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides.

    >>> contiguous_stride((2, 3))
    (3, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_dense(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether the elements fill one piece of memory, each once."""
    step = 1
    for stepped, size in sorted(zip(stride, shape, strict=True)):
        if size == 1:
            continue
        if stepped != step:
            return False
        step *= size
    return True
