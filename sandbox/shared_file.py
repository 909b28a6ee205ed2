"""SharedFile: anonymous shared memory through which tensor bytes travel."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from types import TracebackType
from typing import Self

if sys.platform == "linux":
    _FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
else:
    _FIXED_SIZE = 0


class SharedFile:
    """An unlinked file with one read-write and one read-only descriptor.

    A size that a hostile process could change would fault whoever else has it mapped, so
    `seal_size` fixes it where the kernel can (Linux).
    """

    def __init__(self, name: str, size_bytes: int = 0) -> None:
        if sys.platform == "linux":
            self.writable_fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self.readable_fd = os.open(f"/proc/self/fd/{self.writable_fd}", os.O_RDONLY)
        else:
            self.writable_fd, path = tempfile.mkstemp(prefix=f"egg-{name}-")
            self.readable_fd = os.open(path, os.O_RDONLY)
            os.unlink(path)  # noqa: PTH108 - the path is gone with this line
        os.ftruncate(self.writable_fd, size_bytes)

    def seal_size(self) -> None:
        """Nobody can grow or shrink the file from now on."""
        if sys.platform == "linux":
            fcntl.fcntl(self.writable_fd, fcntl.F_ADD_SEALS, _FIXED_SIZE)

    def close(self) -> None:
        """Drop this process's descriptors; the memory goes with the last mapping."""
        os.close(self.writable_fd)
        os.close(self.readable_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
