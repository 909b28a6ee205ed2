"""Subject: an executor whose processes can be seen from outside (Linux)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import anyio.abc

from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.process_tree import descendants
from egg_mcp.sandbox.starting import StartLauncher, start_launcher
from egg_mcp.sandbox.zygote import Zygote
from egg_mcp.settings import Settings


@dataclass(slots=True)
class Starter:
    """Starts launchers and remembers them."""

    start: StartLauncher = start_launcher
    launchers: list[Launcher] = field(default_factory=list[Launcher])

    async def __call__(self, settings: Settings, task_group: anyio.abc.TaskGroup) -> Launcher:
        """As `start_launcher`."""
        launcher = await self.start(settings, task_group)
        self.launchers.append(launcher)
        return launcher


@dataclass(frozen=True, slots=True)
class Subject:
    """An executor under test."""

    executor: LocalExecutor
    starter: Starter
    settings: Settings

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, settings: Settings, start: StartLauncher = start_launcher
    ) -> AsyncGenerator[Subject]:
        """Run an executor until left."""
        starter = Starter(start)
        async with LocalExecutor(settings, starter) as executor:
            yield cls(executor, starter, settings)

    @property
    def zygote(self) -> int:
        """The running zygote's process; 0 when there is none."""
        living = [one for one in self.starter.launchers if one.is_running]
        return next((one.pid for one in living if isinstance(one, Zygote)), 0)

    def guards(self) -> set[int]:
        """The guards that the zygote has forked and not reaped yet; idle, those of referees."""
        return set(children(self.zygote))


def children(process: int) -> list[int]:
    """The processes it has started itself."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def chain(guard: int) -> list[int]:
    """Guard, keeper, worker, and what the worker has started."""
    return descendants(guard)
