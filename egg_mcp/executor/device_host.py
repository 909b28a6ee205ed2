"""DeviceHost: one device, what starts workers on it, and whose turn it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable

import anyio
import anyio.abc

from egg_mcp.errors import DeviceSick, ZygoteDied
from egg_mcp.executor.contract import Report
from egg_mcp.executor.lease import device_lease, lease_folder, visible_device
from egg_mcp.sandbox.canary import sing
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.starting import StartLauncher
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts

_CANARY_PAUSE_S = 5.0


def _nothing() -> None:
    """Nothing is done while waiting."""


class DeviceHost:
    """Keeps a launcher running; lets one piece of work on the device at a time."""

    def __init__(
        self,
        settings: Settings,
        start_launcher: StartLauncher,
        task_group: anyio.abc.TaskGroup,
    ) -> None:
        self._settings = settings
        self._start_launcher = start_launcher
        self._task_group = task_group
        self._launcher: Launcher | None = None
        self._start = anyio.Lock()
        self.known_device: DeviceFacts | None = None
        self.is_busy = False
        """Whether something of this server has the device."""
        self.is_suspect = False
        """Whether the last thing that ran may have left the device in disorder."""

    @property
    def is_running(self) -> bool:
        """Whether workers can be started, and those started may still live."""
        return self._launcher is not None and self._launcher.is_running

    async def launcher(self) -> Launcher:
        """What starts workers: one zygote, another one when it has died.

        Raises:
            WorkerUnavailable: the worker side cannot run here.
        """
        async with self._start:
            if self._launcher is None or not self._launcher.is_running:
                await self.aclose()
                self._launcher = await self._start_launcher(self._settings, self._task_group)
                self.known_device = self._launcher.device
            return self._launcher

    @contextlib.asynccontextmanager
    async def turn(
        self, report: Report, while_waiting: Callable[[], None] = _nothing
    ) -> AsyncGenerator[None]:
        """Have the device alone, among all servers of this user on this machine.

        Args:
            report: is told the position in the queue.
            while_waiting: called once if there is a queue.

        Raises:
            WorkerUnavailable: the worker side cannot run here.
            DeviceSick: the device does not compute, after a fault.
        """
        # Not in the queue yet: a zygote that starts needs no turn.
        device = (await self.launcher()).device
        lock = device.uuid or visible_device(os.environ)
        async with device_lease(lease_folder(), lock, report, while_waiting):
            self.is_busy = True
            try:
                await self._hear_canary(report)
                yield
            finally:
                self.is_busy = False

    async def aclose(self) -> None:
        """End the launcher, and with it all that it has started."""
        if self._launcher is not None:
            await self._launcher.aclose()

    async def _hear_canary(self, report: Report) -> None:
        """After a fault: go on only when the device computes a known value."""
        if not self.is_suspect:
            return
        await report("checking the device after a fault")
        said = await self._canary()
        if said is not None:
            # A context that is still being torn down, say.
            await anyio.sleep(_CANARY_PAUSE_S)
            said = await self._canary()
        if said is not None:
            raise DeviceSick(f"after a fault the device does not compute a known sum: {said}")
        self.is_suspect = False

    async def _canary(self) -> str | None:
        """None when it sings, else what it said."""
        try:
            return await sing(await self.launcher(), self._settings)
        except ZygoteDied:
            # It had gone, or was stuck, since the fault: once more, with another one.
            return await sing(await self.launcher(), self._settings)
