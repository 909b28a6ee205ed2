"""Belongings: what a box must not have: rights, namespaces, a root of its own choice, too much."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from benchmarks.attacks.attack import During
from benchmarks.attacks.outsiders import status
from benchmarks.attacks.sight import Sight

_KIB = 1024
_BLOCK = 512
_DEFAULT_PERSONALITY = 0
_LIMIT_NAMES = {"Max open files": "open_files", "Max file size": "file_bytes"}


def has_left_namespaces(sight: Sight) -> str:
    """Two processes of a box are in different namespaces of one kind."""
    for kind in ("user", "mnt", "net", "ipc", "uts", "pid"):
        links = {_link(process, f"ns/{kind}") for process in sight.processes[1:]} - {""}
        if len(links) > 1:
            return f"its processes are in {len(links)} {kind} namespaces"
    return ""


def _inner(sight: Sight) -> Iterator[int]:
    """The worker and what it has started: not the guard, and not the keeper that the guard forked."""
    guard = sight.processes[0]
    for process in sight.processes[1:]:
        with contextlib.suppress(OSError, KeyError):
            if int(status(process)["PPid"]) != guard:
                yield process


def _link(process: int, name: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{process}/{name}")  # noqa: PTH115 - text
    return ""


def has_changed_root(sight: Sight) -> str:
    """A file with the attack's label lies right below the root of one of its processes."""
    for path in sight.below(f"/{sight.label}"):
        if path.exists():
            return "the root of one of its processes is a folder of its own"
    return ""


def has_mounted(sight: Sight) -> str:
    """The label is in a process's list of mounts."""
    for process in sight.processes:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process}/mountinfo").read_text("utf-8", "replace")
            if sight.label in text:
                return "its mount is in its list of mounts"
    return ""


def has_privileges(sight: Sight) -> str:
    """Capabilities, a way to get them, or a user that it did not start as."""
    users: set[str] = set()
    for process in _inner(sight):
        with contextlib.suppress(OSError, KeyError):
            found = status(process)
            users.add(found["Uid"])
            if int(found["CapEff"], 16) or int(found["CapPrm"], 16):
                return f"a process of it has capabilities {found['CapEff']}"
            if found["NoNewPrivs"] != "1":
                return "a process of it may gain privileges by starting a program"
    return f"its processes run as users {', '.join(sorted(users))}" if len(users) > 1 else ""


def is_unfiltered(sight: Sight) -> str:
    """A process whose calls no filter judges."""
    for process in _inner(sight):
        with contextlib.suppress(OSError, KeyError):
            if status(process)["Seccomp"] == "0":
                return "a process of it has no filter on its calls"
    return ""


def has_personality(sight: Sight) -> str:
    """Another execution domain than the default."""
    for process in sight.processes:
        with contextlib.suppress(OSError, ValueError):
            found = int(Path(f"/proc/{process}/personality").read_text("ascii"), 16)
            if found != _DEFAULT_PERSONALITY:
                return f"a process of it has personality {found:#x}"
    return ""


def has_set_id_file(sight: Sight) -> str:
    """A file that runs as its owner, in its working folder."""
    for process in sight.processes:
        with contextlib.suppress(OSError):
            for path in Path(f"/proc/{process}/cwd").iterdir():
                if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) and path.is_file():
                    return f"{path.name} is set-user-id"
    return ""


def is_spared_when_memory_ends(sight: Sight) -> str:
    """The kernel would not end it first when the machine has no memory left."""
    for process in _inner(sight):
        with contextlib.suppress(OSError):
            score = int(Path(f"/proc/{process}/oom_score_adj").read_text("ascii"))
            if score < 1_000:
                return f"a process of it has oom_score_adj {score}"
    return ""


def has_raised_limits(sight: Sight) -> str:
    """A limit of a process is above the plan's."""
    for process in _inner(sight):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process}/limits").read_text("ascii")
            for line in text.splitlines():
                for title, name in _LIMIT_NAMES.items():
                    most = line.removeprefix(title).split()[0]
                    if line.startswith(title) and (
                        most == "unlimited" or int(most) > sight.limit(name)
                    ):
                        return f"{title.lower()} is {most} in a process of it"
    return ""


def processes_over(sight: Sight) -> str:
    """More processes and threads than the limit, with some for guard and keeper."""
    count = sight.status_sum("Threads")
    return f"{count} processes and threads" if count > sight.limit("processes") + 8 else ""


def descriptors_over(sight: Sight) -> str:
    """One process with more descriptors than the limit."""
    for process in sight.processes:
        with contextlib.suppress(OSError):
            count = len(list(Path(f"/proc/{process}/fd").iterdir()))
            if count > sight.limit("open_files"):
                return f"{count} descriptors in one process"
    return ""


def memory_over(field: str, limit: str) -> During:
    """The sum of a memory figure over its processes is past a limit."""

    def during(sight: Sight) -> str:
        held = sight.status_sum(field) * _KIB
        return f"{held >> 20} MiB of {field}" if held > sight.limit(limit) else ""

    return during


def one_process_over(field: str, limit: str) -> During:
    """A memory figure of one process is past a limit."""

    def during(sight: Sight) -> str:
        for process in sight.processes:
            with contextlib.suppress(OSError, KeyError):
                held = int(status(process)[field].split()[0]) * _KIB
                if held > sight.limit(limit):
                    return f"{held >> 20} MiB of {field} in one process"
        return ""

    return during


def files_over(limit: str) -> During:
    """One open file of it is larger than the limit, in bytes or in what it takes of the disk."""

    def during(sight: Sight) -> str:
        for one in sight.open_files():
            with contextlib.suppress(OSError):
                found = one.entry.stat()
                if stat.S_ISREG(found.st_mode) and found.st_size > sight.limit(limit):
                    return f"{one.text} has {found.st_size >> 20} MiB"
        return ""

    return during


def folder_over(path: str, limit: str) -> During:
    """A file system of its own takes more than the limit, or holds more files than it may."""

    def during(sight: Sight) -> str:
        for place in sight.below(path):
            with contextlib.suppress(OSError):
                found = os.statvfs(place)
                used = (found.f_blocks - found.f_bfree) * found.f_frsize
                files = found.f_files - found.f_ffree
                if place.stat().st_dev == Path(path).stat().st_dev:
                    continue  # the host's own
                if used > sight.limit(limit):
                    return f"{path} holds {used >> 20} MiB"
                if files > _MOST_FILES:
                    return f"{path} holds {files} files"
        return ""

    return during


_MOST_FILES = 100_000
