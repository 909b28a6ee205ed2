"""Namespaces: processes, files, network and System V objects of the box's own.

The loopback device of the new network stays down: nothing in a box needs it, sockets of the
internet families are refused anyway, and a device that is down carries nothing.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import privileges, syscalls

NEW_MOUNTS = 0x0002_0000
NEW_CGROUP = 0x0200_0000
NEW_UTS = 0x0400_0000
NEW_IPC = 0x0800_0000
NEW_USER = 0x1000_0000
NEW_PROCESSES = 0x2000_0000
NEW_NETWORK = 0x4000_0000
ALL = NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_USER | NEW_PROCESSES | NEW_NETWORK

_HOST_NAME = "box"


def need_user_namespace() -> bool:
    """Whether this process may make namespaces only inside a new user namespace."""
    return not privileges.has_capability(privileges.CAP_SYS_ADMIN)


def begin(with_user: bool) -> None:
    """Have the next fork be process 1 of a new process namespace.

    Args:
        with_user: make a user namespace first, in which this user is itself and nobody else is.

    Raises:
        OSError: refused.
    """
    if not with_user:
        syscalls.call("unshare", NEW_PROCESSES)
        return
    uid, gid = os.geteuid(), os.getegid()
    syscalls.call("unshare", NEW_USER | NEW_PROCESSES)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def complete() -> None:
    """As process 1: leave the host's mounts, network, host name, System V objects and cgroups.

    Raises:
        OSError: refused.
    """
    syscalls.call("unshare", NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_NETWORK)
    socket.sethostname(_HOST_NAME)


def _write(path: str, text: str) -> None:
    # Bytes: a codec may be a module that has not been imported yet and is out of reach by now.
    Path(path).write_bytes(text.encode())
