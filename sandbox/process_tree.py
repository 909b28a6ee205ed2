"""ProcessTree: a process and what it has started, as /proc shows them (Linux)."""

from __future__ import annotations

import contextlib
from pathlib import Path


def is_stopped(guard: int) -> bool:
    """Whether a process below this one has been stopped by a signal (Linux)."""
    return any(_state(pid) in ("T", "t") for pid in descendants(guard))


def descendants(root: int) -> list[int]:
    """The process and all below it, as far as they can be seen."""
    found = [root]
    for pid in found:
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                text = (task / "children").read_text(encoding="ascii")
                found += map(int, text.split())
    return found


def _state(pid: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        # The name before it may hold anything, also brackets and blanks.
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat.rpartition(b") ")[2][:1].decode("ascii", "replace")
    return ""
