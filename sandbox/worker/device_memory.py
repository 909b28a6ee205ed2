"""DeviceMemory: bytes on the device through which tensors go from one process to another."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.segment import Driver, Segment

POISON = 0xFF
"""What lies where nothing was written: NaN in every float, -1 in every signed integer."""


class DeviceMemory:
    """A line of bytes that the other side may read and write at any moment.

    So what comes from there is copied once, and only the copy is looked at.
    """

    def __init__(self, line: torch.Tensor, release: Callable[[], None]) -> None:
        """Take the line over.

        Args:
            line: `[bytes]` uint8, contiguous.
            release: called when it is closed, with nothing running on the line any more.
        """
        self._line: torch.Tensor | None = line
        self._release = release
        self.size_bytes = line.numel()
        self.device = line.device

    def write(self, offset: int, flat: torch.Tensor) -> None:
        """Copy `[bytes]` uint8 to `offset`; queued on the current stream."""
        self._part(offset, flat.numel()).copy_(flat)

    def read(self, offset: int, flat: torch.Tensor) -> None:
        """Fill `[bytes]` uint8 from `offset` on; queued on the current stream."""
        flat.copy_(self._part(offset, flat.numel()))

    def wipe(self) -> None:
        """Poison all of it; queued on the current stream."""
        self._part(0, self.size_bytes).fill_(POISON)

    def close(self) -> None:
        """Give it back. May be called again."""
        if self._line is None:
            return
        is_cuda = self._line.is_cuda
        self._line = None
        if is_cuda:
            torch.cuda.synchronize()
        self._release()

    def _part(self, offset: int, nbytes: int) -> torch.Tensor:
        if self._line is None:
            raise OpError("bad_request", "the device memory is closed")
        # A slice would shorten in silence.
        if offset < 0 or offset + nbytes > self.size_bytes:
            raise OpError("bad_tree", f"{nbytes} bytes at {offset} in {self.size_bytes}")
        return self._line[offset : offset + nbytes]


class _Described:
    """A segment as torch takes one over without a copy."""

    def __init__(self, segment: Segment) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (segment.size_bytes,),
            "typestr": "|u1",
            "data": (segment.address, False),
            "strides": None,
            "version": 3,
        }


def _in_torch(segment: Segment) -> DeviceMemory:
    try:
        line = torch.as_tensor(_Described(segment), device="cuda")
    except (RuntimeError, TypeError, ValueError) as error:
        segment.close()
        raise OpError("no_segment", f"torch does not take it: {error}") from None
    if line.data_ptr() != segment.address:
        segment.close()
        raise OpError("no_segment", "torch copied it")
    return DeviceMemory(line, segment.close)


def make(size_bytes: int) -> tuple[DeviceMemory, int]:
    """New memory, wiped, and a descriptor that the other side gets it by.

    Raises:
        OpError: `no_segment`: it cannot be had here.
    """
    _start_device()
    segment, descriptor = Driver().create(size_bytes)
    try:
        return _wiped(_in_torch(segment)), descriptor
    except OpError:
        os.close(descriptor)
        raise


def _start_device() -> None:
    """Have a context: the driver's calls need one."""
    try:
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError) as error:
        raise OpError("no_segment", str(error)) from None


def _wiped(memory: DeviceMemory) -> DeviceMemory:
    """The same, poisoned: this process's own freed memory may have come back with its contents."""
    try:
        memory.wipe()
        torch.cuda.synchronize()
    except RuntimeError as error:
        memory.close()
        raise OpError("no_segment", str(error)) from None
    return memory


def adopt(descriptor: int, size_bytes: int) -> DeviceMemory:
    """The memory that came as a descriptor, which stays the caller's.

    Raises:
        OpError: `no_segment`: it cannot be had here.
    """
    _start_device()
    return _in_torch(Driver().adopt(descriptor, size_bytes))
