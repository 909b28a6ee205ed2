"""BoxLimits: what one worker may use, as the worker side takes it."""

from __future__ import annotations

from egg_mcp.sandbox import machine_memory
from egg_mcp.settings import Settings

_MEMORY_SHARE = 0.75


def box_limits(settings: Settings) -> dict[str, int]:
    """The limits of one worker, in bytes, seconds and counts."""
    memory = settings.max_host_memory_bytes or int(machine_memory.total_bytes() * _MEMORY_SHARE)
    return {
        "host_memory_bytes": memory,
        "cpu_s": settings.max_cpu_s,
        "processes": settings.max_processes,
        "open_files": settings.max_open_files,
        "file_bytes": settings.max_file_bytes,
        "disk_bytes": settings.max_disk_bytes,
        "shared_memory_bytes": settings.max_shared_memory_bytes,
    }
