"""Mounts: the few calls that the box's root is made of."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import syscalls

NO_SETUID = 0x2
NO_DEVICES = 0x4
NO_EXECUTION = 0x8

_MS_BIND = 0x1000
_MS_RECURSIVE = 0x4000
_MS_PRIVATE = 0x4_0000
_ATTR_READ_ONLY = 0x1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_DETACH = 2


def make_private() -> None:
    """Keep what is mounted from now on from reaching the host, and the other way round.

    Raises:
        OSError: refused.
    """
    syscalls.call("mount", None, b"/", None, _MS_RECURSIVE | _MS_PRIVATE, None)


def memory_folder(path: str, size_bytes: int, most_files: int, mode: int, flags: int) -> None:
    """Mount an empty tmpfs on an existing folder.

    Raises:
        OSError: refused.
    """
    options = f"size={size_bytes},nr_inodes={most_files},mode={mode:o}"
    syscalls.call("mount", b"tmpfs", _raw(path), b"tmpfs", flags, options.encode())


def processes(path: str) -> None:
    """Mount the /proc of this process namespace.

    Raises:
        OSError: refused.
    """
    flags = NO_SETUID | NO_DEVICES | NO_EXECUTION
    syscalls.call("mount", b"proc", _raw(path), b"proc", flags, None)


def show(source: str, target: str) -> None:
    """Have a file or a folder with all below it appear at another, existing place.

    Raises:
        OSError: refused.
    """
    syscalls.call("mount", _raw(source), _raw(target), None, _MS_BIND | _MS_RECURSIVE, None)


def restrict(path: str, flags: int, below: bool, read_only: bool = True) -> None:
    """Take writing and what `flags` names from the mount at the path.

    Args:
        path: where it is mounted.
        flags: any of `NO_SETUID`, `NO_DEVICES`, `NO_EXECUTION`.
        below: from every mount below it, too.
        read_only: whether writing goes.

    Raises:
        OSError: refused; ENOSYS before Linux 5.12.
    """
    wanted = flags | (_ATTR_READ_ONLY if read_only else 0)
    attributes = struct.pack("QQQQ", wanted, 0, 0, 0)
    scope = _AT_RECURSIVE if below else 0
    syscalls.call("mount_setattr", _AT_FDCWD, _raw(path), scope, attributes, len(attributes))


def enter_root(path: str, old: str) -> None:
    """Make the mount at `path` the root; what was the root is then at `old` below it.

    Raises:
        OSError: refused.
    """
    syscalls.call("pivot_root", _raw(path), _raw(old))
    os.chdir("/")


def enter_root_for_good(path: str) -> None:
    """Make the mount at `path` the root and let go of all else.

    Raises:
        OSError: refused.
    """
    os.chdir(path)
    # Both at one place: the old root lies on top of the new one, and is taken off.
    syscalls.call("pivot_root", b".", b".")
    syscalls.call("umount2", b".", _DETACH)
    os.chdir("/")


def place_for(target: str, is_folder: bool) -> None:
    """Make the folder or the empty file that something will be mounted on.

    Raises:
        OSError: it is neither there nor can it be made.
    """
    path = Path(target)
    if is_folder:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch(mode=0o644)


def _raw(path: str) -> bytes:
    return os.fsencode(path)
