"""DeviceMailboxes: device memory that a referee lends to one candidate, for one evaluation.

The referee makes it, and sends a descriptor of each part through this process, which hands them
on. Where that does not work (no GPU, an old driver, a box or a device that forbids it, too little
memory) tensors go through files, and nothing else is different.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from egg_mcp.errors import ProtocolError, SandboxError, WorkerDied, WorkerTimedOut
from egg_mcp.sandbox.referee import Referee
from egg_mcp.sandbox.worker_process import UserCodeError, WorkerProcess
from egg_mcp.settings import Settings

_PARTS = 2
"""Inbox and outbox."""


async def share_memory(referee: Referee, candidate: WorkerProcess, settings: Settings) -> bool:
    """Have the referee make mailboxes and the candidate open them, before any user code runs there.

    Returns:
        Whether both have them; if not, neither uses any. If the candidate dies of it, its next
        request says so.

    Raises:
        SandboxError: the referee failed.
    """
    devices = (referee.worker.device, candidate.device)
    if not all(device is not None and device.kind == "cuda" for device in devices):
        return False
    try:
        made, descriptors = await _made(referee)
        try:
            opened = descriptors and await _opened(candidate, settings, made, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    except UserCodeError:
        opened = False
    if not opened:
        await drop_memory(referee)
    return bool(opened)


async def drop_memory(referee: Referee) -> None:
    """Have the referee let its mailboxes go, if it has any and can still be asked."""
    device = referee.worker.device
    if not referee.worker.is_running or device is None or device.kind != "cuda":
        return
    # What was found holds; a referee that this ended is replaced when it is next needed.
    with contextlib.suppress(UserCodeError, SandboxError):
        await referee.ask("drop_memory")


async def _made(referee: Referee) -> tuple[dict[str, Any], list[int]]:
    made = await referee.ask("make_memory")
    descriptors = referee.worker.take_descriptors()
    if len(descriptors) == _PARTS and all(map(_is_device, descriptors)):
        return made, descriptors
    # Whatever the reply says of them: these are not what was asked for.
    for descriptor in descriptors:
        os.close(descriptor)
    return made, []


def _is_device(descriptor: int) -> bool:
    """Whether it is what the driver exports; a folder, say, would open what lies below it."""
    return stat.S_ISCHR(os.fstat(descriptor).st_mode)


async def _opened(
    candidate: WorkerProcess, settings: Settings, made: dict[str, Any], descriptors: list[int]
) -> bool:
    try:
        await candidate.call(
            "open_memory",
            phase="build",
            deadline_s=settings.build_deadline_s,
            fds=descriptors,
            sizes=made.get("sizes"),
        )
    except (UserCodeError, WorkerTimedOut, WorkerDied, ProtocolError):
        return False
    return True
