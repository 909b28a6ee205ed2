"""DeviceLease: one evaluation at a time on a device, across all servers of a user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import anyio

from egg_mcp.errors import SandboxError
from egg_mcp.executor.contract import Report

_RETRY_S = 0.25


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
async def device_lease(folder: Path, device_name: str, report: Report) -> AsyncGenerator[None]:
    """Hold the device's lock file for the duration; wait while another server has it.

    The lock is the kernel's (`flock`), so it ends with its holder, also after `kill -9`. The
    descriptor is not inheritable: no worker can keep it alive.
    """
    descriptor = _opened(folder, device_name)
    try:
        waiting = False
        while not _taken(descriptor):
            if not waiting:
                await report("queued: another server is using the device")
                waiting = True
            await anyio.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path, device_name: str) -> int:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    safe_name = "".join(char if char.isalnum() else "-" for char in device_name)
    return os.open(folder / f"{safe_name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
