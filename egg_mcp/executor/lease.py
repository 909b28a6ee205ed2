"""DeviceLease: one evaluation at a time on a device, across all servers of a user, in order.

Who waits holds a ticket: a file with a lock of its own in the device's queue folder. The first
ticket takes the device's lock. Every lock is the kernel's (`flock`): it ends with its holder, also
after `kill -9`, and a ticket whose lock can be had is a dead one's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from pathlib import Path

import anyio

from egg_mcp.errors import SandboxError
from egg_mcp.executor.contract import Report

_RETRY_S = 0.1


def lease_folder() -> Path:
    """Where the lock files are: one place on a machine, whatever state folders its servers use.

    Raises:
        SandboxError: somebody else has made it, and could hold every device for ever.
    """
    folder = Path(tempfile.gettempdir()) / f"egg-mcp-locks-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise SandboxError(
            f"{str(folder)!r} belongs to another user; remove it, or set TMPDIR to a folder of "
            "your own"
        )
    return folder


def visible_device(environment: Mapping[str, str]) -> str:
    """The device that workers of this environment use, as CUDA_VISIBLE_DEVICES names it.

    >>> visible_device({}), visible_device({"CUDA_VISIBLE_DEVICES": "3,1"})
    ('0', '3')
    """
    return environment.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "none"


@contextlib.asynccontextmanager
async def device_lease(
    folder: Path,
    device_name: str,
    report: Report,
    while_waiting: Callable[[], None] = lambda: None,
) -> AsyncGenerator[None]:
    """Hold the device's lock for the duration; wait in line while others have it.

    No descriptor is inheritable: no worker can keep a lock alive.

    Args:
        folder: where the locks of this machine's devices are.
        device_name: which device.
        report: is told how many are before this one, whenever that changes.
        while_waiting: called once, if the device is not free at once.
    """
    safe_name = "".join(char if char.isalnum() else "-" for char in device_name)
    lock = _opened(folder / f"{safe_name}.lock")
    try:
        with _ticket(folder / f"{safe_name}.queue") as ticket:
            told = 0
            while (ahead := _before(ticket)) or not _taken(lock):
                # Whoever holds the device has given up its ticket: it is one more.
                if not told:
                    while_waiting()
                if ahead + 1 != told:
                    told = ahead + 1
                    await report(f"queued: {told} before this one on the device")
                await anyio.sleep(_RETRY_S)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def _ticket(queue: Path) -> Generator[Path]:
    queue.mkdir(exist_ok=True, mode=0o700)
    ticket = queue / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
    # Locked before it has its name: nobody may take it for a dead one's.
    unnamed = queue / f".{ticket.name}"
    descriptor = _opened(unnamed)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(ticket)
        yield ticket
    finally:
        ticket.unlink(missing_ok=True)
        os.close(descriptor)


def _before(ticket: Path) -> int:
    """How many living tickets are older; dead ones are removed."""
    older = sorted(path for path in ticket.parent.glob("[0-9]*") if path.name < ticket.name)
    return sum(_is_alive(path) for path in older)


def _is_alive(ticket: Path) -> bool:
    try:
        descriptor = os.open(ticket, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not _taken(descriptor):
            return True
        ticket.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _opened(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
