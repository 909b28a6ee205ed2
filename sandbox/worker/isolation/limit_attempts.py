"""Attempts on the limits: more memory, processes, files, disk than the box may use."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from egg_mcp.sandbox.worker.isolation.attempt import Attempt, Targets

_CHUNK = bytes(1 << 16)
_NO_RESERVE = 0x4000


def _map(length: int, flags: int) -> None:
    # Unreserved and never touched: only a limit refuses it, not the machine's size.
    mapped = mmap.mmap(-1, length, flags=flags | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    mapped.close()


def _take_heap(targets: Targets) -> str:
    _map(targets.limits.host_memory_bytes + 1, mmap.MAP_PRIVATE)
    return f"took {targets.limits.host_memory_bytes + 1} bytes"


def _share_memory(targets: Targets) -> str:
    _map(targets.limits.host_memory_bytes + 1, mmap.MAP_SHARED)
    return f"mapped {targets.limits.host_memory_bytes + 1} shared bytes"


def _fork_past_limit(_: Targets) -> str:
    """With the limit lowered to what runs already: the kernel must refuse one more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, hard))
    try:
        child = os.fork()
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked past the limit"


def _has_limit(which: int, wanted: Callable[[Targets], int]) -> Attempt:
    def attempt(targets: Targets) -> str:
        soft, hard = resource.getrlimit(which)
        if resource.RLIM_INFINITY in (soft, hard) or soft > wanted(targets):
            return f"limit is {soft}"
        raise OSError(errno.EPERM, f"limit is {soft}")

    return attempt


def _open_many(targets: Targets) -> str:
    opened: list[int] = []
    try:
        opened.extend(os.dup(0) for _ in range(targets.limits.open_files + 1))
    finally:
        for each in opened:
            os.close(each)
    return f"opened {len(opened)} files"


def _grow_file(targets: Targets) -> str:
    path = Path(f"box-probe-{os.getpid()}")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(file, targets.limits.file_bytes + 1)
    finally:
        os.close(file)
        path.unlink()
    return f"made a file of {targets.limits.file_bytes + 1} bytes"


def _fill(folder: str, most_bytes: int) -> str:
    """Write files until the folder takes no more."""
    written, paths = 0, list[Path]()
    try:
        while written <= most_bytes:
            paths.append(Path(folder, f"box-probe-{os.getpid()}-{len(paths)}"))
            written += _write_one(paths[-1], most_bytes + 1 - written)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
    return f"wrote {written} bytes to {folder}"


def _write_one(path: Path, most_bytes: int) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    written = 0
    try:
        while written < most_bytes:
            written += os.write(file, _CHUNK)
    except OSError as error:
        # The file is as long as one may be; the next one follows.
        if error.errno != errno.EFBIG or not written:
            raise
    finally:
        os.close(file)
    return written


def leave_daemon(line: int) -> None:
    """Start a process in a session of its own that nobody waits for and that holds `line`."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    while line >= 0:
        signal.pause()


SHARED_MEMORY = "share_memory"
LIMITS: dict[str, Attempt] = {
    "take_heap": _take_heap,
    "fork_past_limit": _fork_past_limit,
    "open_many_files": _open_many,
    "grow_file": _grow_file,
    "fill_disk": lambda targets: _fill(".", targets.limits.disk_bytes),
    "fill_shared_memory": lambda targets: _fill(
        "/dev/shm",  # noqa: S108 - the box's own
        targets.limits.shared_memory_bytes,
    ),
    "use_processor": _has_limit(resource.RLIMIT_CPU, lambda targets: targets.limits.cpu_s),
    "dump_core": _has_limit(resource.RLIMIT_CORE, lambda _: 1),
    SHARED_MEMORY: _share_memory,
}
