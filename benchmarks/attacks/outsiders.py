"""Outsiders: processes that no candidate may touch, and what shows that one did (Linux)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterable
from pathlib import Path

from egg_mcp.sandbox.process_tree import descendants

_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)
Looks = dict[str, object]


def looks(pid: int) -> Looks:
    """All that another process could change about this one, as far as we can see it."""
    found: Looks = {"alive": state(pid) not in ("", "Z", "X"), "stopped": state(pid) in ("T", "t")}
    if not found["alive"]:
        return found
    with contextlib.suppress(OSError):
        found["nice"] = os.getpriority(os.PRIO_PROCESS, pid)
        found["processors"] = sorted(os.sched_getaffinity(pid))
        found["scheduler"] = os.sched_getscheduler(pid)
        found["limits"] = [resource.prlimit(pid, each) for each in _LIMITS]
    for name in ("comm", "oom_score_adj", "coredump_filter", "environ"):
        with contextlib.suppress(OSError):
            found[name] = Path(f"/proc/{pid}/{name}").read_bytes()
    with contextlib.suppress(OSError, ValueError):
        found["tracer"] = int(status(pid)["TracerPid"])
    return found


def changes(before: Looks, after: Looks) -> str:
    """What differs, in words; empty when nothing does."""
    names = [name for name in before if name in after and before[name] != after[name]]
    return ", ".join(
        f"{name} {str(before[name])[:60]} -> {str(after[name])[:60]}" for name in names
    )


def state(pid: int) -> str:
    """Its letter in /proc; empty when it is gone."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat.rpartition(b") ")[2][:1].decode("ascii", "replace")
    return ""


def status(pid: int) -> dict[str, str]:
    """The lines of its status.

    Raises:
        OSError: it is gone.
    """
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    pairs = (line.partition(":") for line in lines.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def children(pid: int) -> list[int]:
    """The processes it has started itself."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def trees(roots: Iterable[int]) -> list[int]:
    """These processes and all below them."""
    return [pid for root in roots for pid in descendants(root)]


def marked(label: str) -> list[int]:
    """Every process of this machine that bears the label as its name or in its arguments."""
    wanted, found = label.encode(), list[int]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "comm").read_bytes() + (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def set_going(pids: Iterable[int]) -> None:
    """Let those that were stopped go on."""
    for pid in pids:
        if state(pid) in ("T", "t"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
