"""Which files a box may touch, as Landlock rules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from egg_mcp.sandbox.worker.isolation.landlock import (
    DEVICE,
    EVERYTHING,
    READ,
    TRUNCATE,
    WRITE_FILE,
    Rule,
)
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.view import (
    PLAIN_DEVICES,
    SYSTEM_FOLDERS,
    SYSTEM_SETTINGS,
    trace,
)

# Of a /proc that is shared with the host: what runtimes and the CUDA driver read, and no
# other process's folder.
_SHARED_PROC = (
    *("self", "cpuinfo", "meminfo", "stat", "version", "filesystems", "devices", "modules"),
    *("loadavg", "uptime", "vmstat", "sys", "driver", "misc", "cgroups"),
)
_SHARED_SETTINGS = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf")


def in_own_root(plan: BoxPlan) -> list[Rule]:
    """Rules inside a root that shows only what may be read."""
    return [
        Rule("/", READ),
        Rule("/tmp", EVERYTHING),  # noqa: S108 - the box's own
        Rule("/dev/shm", EVERYTHING),  # noqa: S108 - the box's own
        # The CUDA driver names its threads, also in the programs that a box starts. Nothing
        # but the box's own processes can be written to here.
        Rule("/proc", READ | WRITE_FILE | TRUNCATE),
        *_devices(plan),
    ]


def in_shared_root(plan: BoxPlan) -> list[Rule]:
    """Rules where the host's files are all in sight.

    Raises:
        OSError: a path cannot be followed.
    """
    hidden = _followed(plan.hidden)
    readable = _followed((*SYSTEM_FOLDERS, *SYSTEM_SETTINGS, *_SHARED_SETTINGS, *plan.read_only))
    return [
        *(rule for path in readable for rule in _around(path, hidden)),
        *(Rule(f"/proc/{name}", READ) for name in _SHARED_PROC),
        # Not all of /proc: this user's other processes have switches there, too. So here only
        # the box's first process can name threads, which CUDA needs.
        Rule("/proc/self/task", READ | WRITE_FILE | TRUNCATE),
        Rule("/sys", READ),
        Rule(plan.scratch, EVERYTHING),
        *_devices(plan),
    ]


def _devices(plan: BoxPlan) -> Iterator[Rule]:
    for path in (*PLAIN_DEVICES, *plan.devices):
        yield Rule(path, DEVICE)


def _followed(paths: tuple[str, ...]) -> list[str]:
    return [found.path for path in paths if (found := trace(path)) is not None]


def _around(path: str, hidden: list[str]) -> Iterator[Rule]:
    """Read rights at the path, but not in what is hidden below it.

    Rights only ever add up, so a folder with something hidden in it is granted entry by entry,
    as they are now; it cannot be listed itself, for that right would hold below it, too.
    """
    if any(_is_in(path, each) for each in hidden):
        return
    if not any(_is_in(each, path) for each in hidden):
        yield Rule(path, READ)
        return
    for name in os.listdir(path):  # noqa: PTH208 - names
        entry = str(Path(path, name))
        if Path(entry).is_symlink():
            continue
        yield from _around(entry, hidden)


def _is_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)
