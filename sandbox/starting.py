"""Starting: the launcher that fits this machine."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import anyio.abc

from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.plain_launcher import PlainLauncher
from egg_mcp.sandbox.zygote import Zygote
from egg_mcp.settings import Settings

StartLauncher = Callable[[Settings, anyio.abc.TaskGroup], Awaitable[Launcher]]


async def start_launcher(settings: Settings, task_group: anyio.abc.TaskGroup) -> Launcher:
    """A zygote on Linux; elsewhere plain processes, which `sandbox` then says.

    Raises:
        WorkerUnavailable: no torch there, no such device, or not ready in time.
        SandboxRefused: the box holds less than `settings.sandbox` asks for.
    """
    if sys.platform.startswith("linux"):
        return await Zygote.start(settings, task_group)
    return await PlainLauncher.start(settings, task_group)
