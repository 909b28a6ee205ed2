"""SharedFile: a file of tensor bytes that parent and workers share.

Read and written by calls, never mapped: the other side may shorten a file at any moment, which a
mapping answers with SIGBUS and a call with a short count.
"""

from __future__ import annotations

import ctypes
import os

from egg_mcp.sandbox.worker.op_error import OpError


def memory_at(address: int, nbytes: int) -> memoryview:
    """The process's own bytes from `address` on, writable."""
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


class SharedFile:
    """One descriptor, with the right to grow the file or not."""

    def __init__(self, descriptor: int, may_grow: bool = False) -> None:
        self._descriptor = descriptor
        self._may_grow = may_grow

    @property
    def size_bytes(self) -> int:
        """How long the file is now."""
        return os.fstat(self._descriptor).st_size

    def reserve(self, end: int) -> bool:
        """Whether bytes up to `end` can be written; grows the file where that is allowed."""
        if end <= self.size_bytes:
            return True
        if self._may_grow:
            os.ftruncate(self._descriptor, end)
        return self._may_grow

    def read(self, offset: int, target: memoryview) -> None:
        """Fill `target` from `offset` on.

        Raises:
            OpError: the file ends before that.
        """
        done = 0
        while done < len(target):
            count = os.preadv(self._descriptor, [target[done:]], offset + done)
            if count == 0:
                raise OpError("bad_tree", f"file ends at {offset + done}, tensor goes on")
            done += count

    def write(self, offset: int, source: memoryview) -> None:
        """Write all of `source` from `offset` on."""
        done = 0
        while done < len(source):
            done += os.pwritev(self._descriptor, [source[done:]], offset + done)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


class NoRoom(SharedFile):
    """A file in which nothing fits: what is encoded into it is form alone."""

    def __init__(self) -> None:
        super().__init__(-1)

    def reserve(self, end: int) -> bool:
        """Never."""
        del end
        return False
