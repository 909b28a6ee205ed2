"""MachineMemory: how much of it is left. What no limit of a process caps (memfd, shared pages) shows here."""

from __future__ import annotations

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_UNKNOWN_BYTES = 16 << 30
_LEAST_SHARE = 0.03


def total_bytes() -> int:
    """Memory of this machine; 16 GiB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return _UNKNOWN_BYTES


def least_free_bytes() -> int:
    """Below this much free memory the kernel is about to kill processes of its own choice."""
    return int(total_bytes() * _LEAST_SHARE)


def available_bytes() -> int | None:
    """What can be had without swapping; None where the system does not tell."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
