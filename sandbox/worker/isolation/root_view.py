"""The box's root: a small tree in memory that shows some of the host's files, read-only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import mounts
from egg_mcp.sandbox.worker.isolation.layer import applying
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.view import PLAIN_DEVICES, Entry, entries_of

_STAGE = "/tmp"  # noqa: S108 - any folder that every host has
_OLD, _NEW, _EMPTY_FILE = "/old", "/new", "/empty"
_SMALL_BYTES = 1 << 20
_MOST_FILES = 1 << 16
_LOCKED = mounts.NO_SETUID | mounts.NO_DEVICES
_DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
# The kernel's switches check for user 0, not for a capability; the rest tells of the host.
_PROC_READ_ONLY = ("sys", "irq", "bus", "fs", "acpi", "sysrq-trigger")
_PROC_HIDDEN = ("kcore", "keys", "timer_list", "sched_debug", "latency_stats", "scsi", "kmsg")


def build(plan: BoxPlan, uid: int, gid: int) -> None:
    """In new mount and process namespaces: make the box's root and move there.

    Args:
        plan: what it shows, hides and allows.
        uid: the user whose `scratch` it is.
        gid: that user's group.

    Raises:
        OSError: refused, or a path cannot be followed.
        ValueError: a path of the plan cannot be placed.
    """
    entries = entries_of(plan)
    mounts.make_private()
    mounts.memory_folder(_STAGE, _SMALL_BYTES, _MOST_FILES, 0o755, _LOCKED)
    for name in (_OLD, _NEW):
        Path(_STAGE + name).mkdir(mode=0o755)
    # Two steps: with the host's root moved aside, nothing of it is covered by what is built.
    mounts.enter_root(_STAGE, _STAGE + _OLD)
    Path(_EMPTY_FILE).touch(mode=0o444)
    mounts.memory_folder(_NEW, _SMALL_BYTES, _MOST_FILES, 0o755, _LOCKED)
    for entry in entries:
        _place(entry, plan)
    _fill_devices(plan)
    _fill_processes()
    _write_settings(uid, gid)
    _make_scratch(plan, uid, gid)
    for path in (*(each.path for each in entries if each.kind == "hide"), "/dev", "/"):
        if Path(_NEW + path).is_dir():
            mounts.restrict(_NEW + path, mounts.NO_SETUID, below=False)
    mounts.enter_root_for_good(_NEW)


def _place(entry: Entry, plan: BoxPlan) -> None:
    target = _NEW + entry.path
    if entry.kind == "link":
        Path(target).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(target).symlink_to(entry.target)
        return
    if entry.kind == "hide" and not entry.is_folder:
        mounts.show(_EMPTY_FILE, target)
        mounts.restrict(target, _LOCKED, below=False)
        return
    if entry.kind == "show":
        mounts.place_for(target, entry.is_folder)
        mounts.show(_OLD + entry.path, target)
        mounts.restrict(target, _LOCKED, below=True)
        return
    mounts.place_for(target, is_folder=True)
    if entry.path == "/proc":
        mounts.processes(target)
        return
    size_bytes, mode, flags = _SMALL_BYTES, 0o755, _LOCKED
    if entry.path == "/tmp":  # noqa: S108 - the box's own
        size_bytes, mode = plan.limits.disk_bytes, 0o1777
    elif entry.path == "/dev":
        flags = mounts.NO_SETUID
    mounts.memory_folder(target, size_bytes, _MOST_FILES, mode, flags)


def _fill_devices(plan: BoxPlan) -> None:
    for path in (*PLAIN_DEVICES, *plan.devices):
        if not stat.S_ISCHR(os.lstat(_OLD + path).st_mode):
            raise ValueError(f"{path} is no character device")
        mounts.place_for(_NEW + path, is_folder=False)
        mounts.show(_OLD + path, _NEW + path)
    for path, target in _DEVICE_LINKS.items():
        Path(_NEW + path).symlink_to(target)
    shared = _NEW + "/dev/shm"  # noqa: S108 - the box's own
    Path(shared).mkdir()
    mounts.memory_folder(shared, plan.limits.shared_memory_bytes, _MOST_FILES, 0o1777, _LOCKED)


def _fill_processes() -> None:
    for name in _PROC_READ_ONLY:
        target = f"{_NEW}/proc/{name}"
        if Path(target).exists():
            mounts.show(target, target)
            mounts.restrict(target, _LOCKED, below=True)
    for name in _PROC_HIDDEN:
        target = Path(f"{_NEW}/proc/{name}")
        if target.is_dir():
            mounts.memory_folder(str(target), _SMALL_BYTES, 2, 0o555, _LOCKED)
            mounts.restrict(str(target), _LOCKED, below=False)
        elif target.exists():
            mounts.show(_EMPTY_FILE, str(target))
            mounts.restrict(str(target), _LOCKED, below=False)


def _write_settings(uid: int, gid: int) -> None:
    """The users and hosts that a box knows of: itself."""
    folder = Path(_NEW + "/etc")
    folder.mkdir(mode=0o755, exist_ok=True)
    user = "" if uid == 0 else f"box:x:{uid}:{gid}::/tmp:/bin/sh\n"
    group = "" if gid == 0 else f"box:x:{gid}:\n"
    texts = {
        "passwd": f"root:x:0:0::/:/bin/sh\n{user}",
        "group": f"root:x:0:\n{group}",
        "hosts": "127.0.0.1 localhost box\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())


def _make_scratch(plan: BoxPlan, uid: int, gid: int) -> None:
    scratch = Path(_NEW + plan.scratch)
    scratch.mkdir(mode=0o700, parents=True)
    # In a rootless container there are no other users to give it to.
    with applying("uid"):
        os.chown(scratch, uid, gid)
