"""What a box sees of the host's files: worked out before anything is mounted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from egg_mcp.sandbox.worker.isolation.plan import BoxPlan

PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

# What every program needs. The rest of /etc names users, hosts, keys and secrets.
SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/opengl-driver"),
)
SYSTEM_SETTINGS = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/localtime", "/etc/os-release", "/etc/nvidia", "/etc/OpenCL"),
)
_MOST_LINKS = 40

Kind = Literal["show", "hide", "link", "memory"]


@dataclass(frozen=True)
class Entry:
    """One thing in the box's root.

    Attributes:
        path: where, free of symbolic links.
        kind: `show` the host's, `hide` it under nothing, `link` as the host does, `memory` for
            a place of the box's own.
        target: of a link, as it is written.
        is_folder: or a file.
    """

    path: str
    kind: Kind
    target: str = ""
    is_folder: bool = True


@dataclass(frozen=True)
class Traced:
    """A path followed: the links on the way, as (where, what it says), and where it ends."""

    links: tuple[tuple[str, str], ...]
    path: str


def trace(path: str) -> Traced | None:
    """Follow a path as the system does; None where it leads nowhere.

    Raises:
        OSError: ELOOP, or a folder on the way may not be searched.
    """
    links: list[tuple[str, str]] = []
    here = "/"
    parts = list(PurePosixPath(path).parts[1:])
    while parts:
        part = parts.pop(0)
        if part == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - pure text, as in the rest of the loop
            continue
        there = os.path.join(here, part)  # noqa: PTH118
        try:
            is_link = stat.S_ISLNK(os.lstat(there).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not is_link:
            here = there
            continue
        target = os.readlink(there)  # noqa: PTH115 - the text, not a path
        links.append((there, target))
        if len(links) > _MOST_LINKS:
            raise OSError(40, f"too many symbolic links on the way to {path}")
        follow = PurePosixPath(target)
        here = "/" if follow.is_absolute() else here
        parts = [each for each in follow.parts if each != "/"] + parts
    return Traced(tuple(links), here)


def entries_of(plan: BoxPlan) -> list[Entry]:
    """What to place in the new root, outer before inner, nothing twice.

    Raises:
        OSError: a path cannot be followed.
        ValueError: a read-only path leads to a place that the box has of its own.
    """
    found: dict[str, Entry] = {path: Entry(path, "memory") for path in ("/tmp", "/dev", "/proc")}  # noqa: S108
    own = set(found)
    for path in (*SYSTEM_FOLDERS, *SYSTEM_SETTINGS, "/sys", *plan.read_only):
        traced = trace(path)
        if traced is None:
            continue
        for where, target in traced.links:
            found.setdefault(where, Entry(where, "link", target))
        if traced.path == "/" or traced.path in own:
            raise ValueError(f"{path} leads to {traced.path}, which cannot be shown as a whole")
        found[traced.path] = Entry(traced.path, "show", is_folder=_is_folder(traced.path))
    for path in plan.hidden:
        traced = trace(path)
        if traced is not None and traced.path != "/" and traced.path not in own:
            found[traced.path] = Entry(traced.path, "hide", is_folder=_is_folder(traced.path))
    return _without_covered(found.values())


def enclosing(path: str, placed: dict[str, Entry]) -> Entry | None:
    """The innermost entry that the path lies in."""
    for parent in PurePosixPath(path).parents:
        if str(parent) in placed:
            return placed[str(parent)]
    return None


def _without_covered(entries: Iterable[Entry]) -> list[Entry]:
    placed: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda each: len(PurePosixPath(each.path).parts)):
        outer = enclosing(entry.path, placed)
        is_seen = outer is not None and outer.kind == "show"
        if entry.kind in ("show", "link") and is_seen:
            continue
        if entry.kind == "hide" and not is_seen:
            continue
        placed[entry.path] = entry
    return list(placed.values())


def _is_folder(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)
