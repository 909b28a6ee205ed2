"""Faults on the GPU: kernels that do not end, addresses that are not there, memory that is not."""

from __future__ import annotations

from functools import partial

from benchmarks.fault_cases.case import GPU_ONLY, Case
from benchmarks.fault_cases.in_candidate import inject
from benchmarks.fault_cases.sources import candidate

KERNELS = """
@triton.jit
def spin(x_ptr):
    value = tl.load(x_ptr, volatile=True)
    while value == value:
        value = tl.load(x_ptr, volatile=True)
    tl.store(x_ptr, value)


@triton.jit
def store_far(x_ptr, offset):
    tl.store(x_ptr + offset, 1.0)


@triton.jit
def store_askew(x_ptr):
    tl.store(x_ptr.to(tl.pointer_type(tl.float32)), 1.0)


@triton.jit
def trap(x_ptr):
    x = tl.load(x_ptr)
    y = tl.inline_asm_elementwise(
        "trap; mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=False, pack=1
    )
    tl.store(x_ptr, y)


@triton.jit
def too_much_shared(x_ptr, size):
    at = tl.arange(0, 128)
    total = tl.zeros((128, 128), dtype=tl.float32)
    for start in range(0, size, 128):
        x = tl.load(x_ptr + at[:, None] * size + start + at[None, :])
        y = tl.load(x_ptr + (start + at[:, None]) * size + at[None, :])
        total = tl.dot(x, y, total)
    tl.store(x_ptr + at[:, None] * size + at[None, :], total.to(tl.float16))


driver = ctypes.CDLL("libcuda.so.1")
"""
_HOG = (
    "pointer, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()\n"
    "for size in (1 << 32, 1 << 28, 1 << 24, 1 << 21):\n"
    "    while driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0:\n"
    "        pass"
)
_SYNC = "torch.cuda.synchronize()"
_FAULT = "crashed/device_fault"
_FULL = "crashed/out_of_device_memory"


def _case(name: str, expected: str, forward: str, says: str = "") -> Case:
    source = candidate(at_import=KERNELS, forward=forward)
    return Case(name, expected, partial(inject, source=source), says, GPU_ONLY)


CASES = (
    _case(
        "kernel-without-end",
        "timed_out/hang_on_device",
        "spin[(1,)](torch.zeros(1, device='cuda'))",
    ),
    _case(
        "kernel-without-end-on-a-stream",
        "timed_out/hang_on_device",
        "with torch.cuda.stream(torch.cuda.Stream()):\n"
        "    spin[(1,)](torch.zeros(1, device='cuda'))",
    ),
    _case(
        "illegal-address", _FAULT, f"store_far[(1,)](a, 1 << 40)\n{_SYNC}", "illegal memory access"
    ),
    _case("illegal-address-unseen", _FAULT, "store_far[(1,)](a, 1 << 40)"),
    _case(
        "illegal-address-swallowed",
        _FAULT,
        f"try:\n    store_far[(1,)](a, 1 << 40)\n    {_SYNC}\nexcept RuntimeError:\n    pass",
    ),
    _case(
        "misaligned-address",
        _FAULT,
        f"store_askew[(1,)](torch.zeros(64, dtype=torch.uint8, device='cuda')[1:])\n{_SYNC}",
        "misaligned address",
    ),
    _case("trap", _FAULT, f"trap[(1,)](a)\n{_SYNC}"),
    _case(
        "device-assertion",
        _FAULT,
        "a[torch.tensor([1 << 40], device='cuda')]\ntorch.cuda.synchronize()",
    ),
    _case(
        "memset-at-a-wild-address",
        _FAULT,
        f"driver.cuMemsetD8_v2(ctypes.c_uint64(0x10000), 1, ctypes.c_size_t(1 << 20))\n{_SYNC}\n"
        "store_far[(1,)](a, 1 << 40)",
    ),
    _case(
        "device-memory-by-torch",
        _FULL,
        "kept = [torch.empty(1 << 33, device='cuda') for _ in range(64)]",
    ),
    _case("device-memory-in-one-piece", _FULL, "torch.empty(1 << 42, device='cuda')"),
    _case("device-memory-by-the-driver", "pass/-", _HOG),
    _case(
        "too-much-shared-memory",
        "build_failed/raised",
        "half = torch.zeros(1024, 1024, device='cuda', dtype=torch.float16)\n"
        "too_much_shared[(1,)](half, 1024, num_stages=8)",
        "shared memory",
    ),
    _case("hang-with-a-context", "timed_out/hang_on_host", "while True:\n    pass"),
    _case("reads-address-0-with-a-context", "crashed/ended_by_signal", "ctypes.string_at(0)"),
    _case(
        "ends-with-work-on-the-device",
        "crashed/ended_itself",
        "spin[(1,)](torch.zeros(1, device='cuda'))\nos._exit(0)",
    ),
)
