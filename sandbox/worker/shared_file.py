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


class SharedFiles:
    """The inbox (referee writes, candidate reads) and the outbox (the other way round)."""

    def __init__(self, grows_inbox: bool) -> None:
        self._grows_inbox = grows_inbox
        self._files: list[SharedFile] = []

    def open(self, descriptors: list[int]) -> None:
        """Take `[inbox, outbox]`; those held before are closed.

        Raises:
            OpError: not two descriptors.
        """
        if len(descriptors) != 2:
            for descriptor in descriptors:
                os.close(descriptor)
            raise OpError("bad_request", f"open_files takes 2 descriptors, got {len(descriptors)}")
        for file in self._files:
            file.close()
        inbox, outbox = descriptors
        self._files = [SharedFile(inbox, may_grow=self._grows_inbox), SharedFile(outbox)]

    @property
    def inbox(self) -> SharedFile:
        """Inputs, weights, init values."""
        return self._file(0)

    @property
    def outbox(self) -> SharedFile:
        """Outputs."""
        return self._file(1)

    def _file(self, index: int) -> SharedFile:
        if not self._files:
            raise OpError("bad_request", "no files yet: send open_files first")
        return self._files[index]
