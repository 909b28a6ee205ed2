"""DeviceLease: one evaluation at a time on a device, across the servers that share a state."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from egg_mcp.executor.contract import Report

_RETRY_S = 0.25


@contextlib.asynccontextmanager
async def device_lease(state_dir: Path, device_name: str, report: Report) -> AsyncGenerator[None]:
    """Hold the device's lock file for the duration; wait while another server has it.

    The lock is the kernel's (`flock`), so it ends with its holder, also after `kill -9`. The
    descriptor is not inheritable: no worker can keep it alive.
    """
    folder = state_dir / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    safe_name = "".join(char if char.isalnum() else "-" for char in device_name)
    descriptor = os.open(folder / f"{safe_name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
