"""Ends every process that a box without a process namespace has left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import privileges

_PARENT_FIELD = 1


def end_descendants(slot_uid: int | None) -> None:
    """Kill and reap until this process, which adopts orphans, has no child left.

    Args:
        slot_uid: the user that the box runs as and nobody else does; None where there is no
            such user. With it, one call reaches all of them, however fast they fork.
    """
    while True:
        if slot_uid is not None:
            _kill_all_of(slot_uid)
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        # At least one ends now, and those it started become children for the next round.
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _kill_all_of(uid: int) -> None:
    """Kill every process of the user by a process that is one, which the kernel leaves out."""
    killer = os.fork()
    if killer:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(killer, 0)
        return
    try:
        privileges.become(uid)
        os.kill(-1, signal.SIGKILL)
    except BaseException:  # noqa: BLE001, S110 - nobody is left: the other way still follows
        pass
    finally:
        os._exit(0)


def _children() -> list[int]:
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_bytes()
    except OSError:
        return _children_by_search()
    return [int(each) for each in listed.split()]


def _children_by_search() -> list[int]:
    """For a kernel that keeps no such list."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_bytes()
            if int(status.rpartition(b")")[2].split()[_PARENT_FIELD]) == os.getpid():
                found.append(int(folder.name))
    return found
