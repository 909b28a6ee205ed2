"""Values: what a forward takes and gives; tensors in lists, tuples and dicts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def children(value: Any) -> list[tuple[str, Any]] | None:
    """A container's entries with their subscripts; None for a leaf.

    >>> children([7])
    [('[0]', 7)]
    """
    if isinstance(value, dict):
        return [(f"[{key!r}]", entry) for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", entry) for index, entry in enumerate(value)]
    return None


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf with its place: `outputs[0]`; a value by itself counts as the first."""
    if children(value) is None:
        yield f"{name}[0]", value
    else:
        yield from _leaves(value, name)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    entries = children(value)
    if entries is None:
        yield name, value
        return
    for subscript, entry in entries:
        yield from _leaves(entry, name + subscript)


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor, in order."""
    return [leaf for _, leaf in _leaves(value, "") if isinstance(leaf, torch.Tensor)]


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same structure with every tensor changed."""
    return map_leaves(value, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with every leaf changed."""
    if isinstance(value, dict):
        return {key: map_leaves(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [map_leaves(entry, change) for entry in value]
        if isinstance(value, list):
            return entries
        return type(value)(*entries) if hasattr(value, "_fields") else tuple(entries)
    return change(value)


def is_real_float(tensor: torch.Tensor) -> bool:
    """Whether it holds floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def size_bytes(value: Any) -> int:
    """Bytes of all tensors: elements times element size."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(value))


def dtype_name(dtype: torch.dtype) -> str:
    """Without the prefix: `float32`."""
    return str(dtype).removeprefix("torch.")


def facts(value: Any, name: str) -> list[dict[str, Any]]:
    """One entry for each leaf: name, kind, and for tensors shape, dtype, size."""
    found: list[dict[str, Any]] = []
    for place, leaf in leaves(value, name):
        if isinstance(leaf, torch.Tensor):
            found.append(
                {
                    "name": place,
                    "kind": "tensor",
                    "shape": list(leaf.shape),
                    "dtype": dtype_name(leaf.dtype),
                    "size_bytes": size_bytes(leaf),
                }
            )
        else:
            found.append({"name": place, "kind": type(leaf).__name__})
    return found


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether both hold the same bits, NaN and signed zero included."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.numel() == 0:
        return True
    first, second = (
        entry.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
        for entry in (left, right)
    )
    return torch.equal(first, second)
