"""Whether CUDA works in a box: the driver's own calls, without torch."""

from __future__ import annotations

import ctypes
from typing import Any

_LIBRARY = "libcuda.so.1"


class _CudaError(Exception):
    pass


def make_context(_: int) -> dict[str, Any]:
    """Initialize the driver and make a context on the first device.

    Returns:
        `works` and `said`: what came of it.
    """
    try:
        return {"works": True, "said": _make_context()}
    except (OSError, AttributeError, _CudaError) as error:
        return {"works": False, "said": str(error)}


def _make_context() -> str:
    library = ctypes.CDLL(_LIBRARY)
    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    _check("cuInit", library.cuInit(0))
    _check("cuDeviceGetCount", library.cuDeviceGetCount(ctypes.byref(count)))
    _check("cuDeviceGet", library.cuDeviceGet(ctypes.byref(device), 0))
    _check("cuCtxCreate", library.cuCtxCreate_v2(ctypes.byref(context), 0, device))
    _check("cuCtxDestroy", library.cuCtxDestroy_v2(context))
    return f"context made; {count.value} device(s) in sight"


def _check(name: str, result: int) -> None:
    if result:
        raise _CudaError(f"{name} gives error {result}")
