"""Limits on what each process of a box may use, by the kernel's own accounts."""

from __future__ import annotations

import contextlib
import resource
import signal
from pathlib import Path

from egg_mcp.sandbox.worker.isolation.plan import Limits

_GRACE_S = 5
_FIRST_TO_GO = b"1000"


def apply(limits: Limits, processes: int) -> None:
    """Bind this process and all that it starts. Comes before a change of user.

    Args:
        limits: see there.
        processes: for RLIMIT_NPROC, which counts what else the user runs, too.

    Raises:
        OSError: refused.
        ValueError: a number that the kernel does not take.
    """
    # Past its file size a program should see an error, not die.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _lower(resource.RLIMIT_DATA, limits.host_memory_bytes)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + _GRACE_S)
    _lower(resource.RLIMIT_NPROC, processes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    # One byte, not none: only then is a program that the host feeds with dumps not started.
    _lower(resource.RLIMIT_CORE, 1)
    for nothing in (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        _lower(nothing, 0)
    Path("/proc/self/oom_score_adj").write_bytes(_FIRST_TO_GO)


def processes_of(uid: int) -> int:
    """How many processes and threads the user has now, on the whole machine."""
    count = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == uid:
                count += sum(1 for _ in (folder / "task").iterdir())
    return count


def forbid_dumps() -> None:
    """Leave no copy of this process's memory when it dies.

    Raises:
        OSError: refused.
    """
    _lower(resource.RLIMIT_CORE, 1)


def _lower(which: int, soft: int, hard: int | None = None) -> None:
    _, most = resource.getrlimit(which)
    limit = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, limit = min(soft, most), min(limit, most)
    resource.setrlimit(which, (soft, limit))
