"""Which open files a process of the box keeps."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterable

from egg_mcp.sandbox.worker.isolation import syscalls

_STANDARD = (0, 1, 2)
_LAST = (1 << 32) - 1


def check(keep: Iterable[int]) -> None:
    """Refuse what would be a way out of the box.

    Raises:
        OSError: a descriptor is not open.
        ValueError: it is a folder: every path below it could be opened.
    """
    for each in keep:
        if stat.S_ISDIR(os.fstat(each).st_mode):
            raise ValueError(f"descriptor {each} is a folder")


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor except these and the standard three.

    Raises:
        OSError: refused.
    """
    start = 0
    for each in sorted({*keep, *_STANDARD}):
        if each > start:
            _close_range(start, each - 1)
        start = each + 1
    _close_range(start, _LAST)


def silence(which: Iterable[int]) -> None:
    """Point these at /dev/null.

    Raises:
        OSError: it cannot be opened.
    """
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for each in which:
        os.dup2(null, each)
    if null not in _STANDARD:
        os.close(null)


def has_hung_up(descriptor: int) -> bool:
    """Whether nobody holds the other end of the pipe."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def read_all(descriptor: int) -> bytes:
    """Everything until every writer has closed."""
    parts: list[bytes] = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _close_range(first: int, last: int) -> None:
    try:
        syscalls.call("close_range", first, last, 0)
    except OSError:
        # Before Linux 5.9; there, nobody raises the limit beyond a few thousand.
        os.closerange(first, min(last, os.sysconf("SC_OPEN_MAX")) + 1)
