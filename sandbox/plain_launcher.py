"""PlainLauncher: a fresh Python for every worker, in a process group of its own and in no box.

For systems without Linux's pidfd and namespaces (macOS), for `--sandbox off`, and as the cold
start that the zygote is measured against.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from socket import socket
from typing import Self

import anyio
import anyio.abc

from egg_mcp.errors import SandboxRefused, WorkerUnavailable
from egg_mcp.sandbox import live_groups
from egg_mcp.sandbox.channel import Channel
from egg_mcp.sandbox.launcher import LAUNCH_FILE, Launched, Role, worker_environment
from egg_mcp.sandbox.output_pipe import OutputPipe
from egg_mcp.sandbox.process_handle import SpawnedProcess
from egg_mcp.sandbox.worker_process import WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport


class PlainLauncher:
    """Nothing stays between two launches."""

    def __init__(self, settings: Settings, task_group: anyio.abc.TaskGroup) -> None:
        self._settings = settings
        self._task_group = task_group
        self._device: DeviceFacts | None = None

    @classmethod
    async def start(cls, settings: Settings, task_group: anyio.abc.TaskGroup) -> Self:
        """Ask one worker what it runs on.

        Raises:
            WorkerUnavailable: no torch there, no such device, or not ready in time.
            SandboxRefused: a box is asked for, and there is none here.
        """
        launcher = cls(settings, task_group)
        if settings.sandbox == "strict":
            raise SandboxRefused(
                f"--sandbox strict needs Linux; on {sys.platform} workers are plain processes"
            )
        worker = await WorkerProcess.start("canary", launcher, settings)
        await worker.aclose()
        launcher._device = worker.device
        return launcher

    @property
    def device(self) -> DeviceFacts:
        """As `Launcher.device`."""
        if self._device is None:
            raise RuntimeError("PlainLauncher comes from PlainLauncher.start")
        return self._device.model_copy(update={"sandbox": self.sandbox.short})

    @property
    def sandbox(self) -> SandboxReport:
        """As `Launcher.sandbox`."""
        failed = {} if self._settings.sandbox == "off" else {"all": f"not on {sys.platform}"}
        return SandboxReport(mode=self._settings.sandbox, failed=failed)

    @property
    def is_running(self) -> bool:
        """Always."""
        return True

    @property
    def has_own_files(self) -> bool:
        """As `Launcher.has_own_files`."""
        return False

    async def launch(self, role: Role) -> Launched:
        """As `Launcher.launch`."""
        return await spawn(role, self._settings, self._task_group)

    async def aclose(self) -> None:
        """Nothing to end."""


async def spawn(role: Role | str, settings: Settings, task_group: anyio.abc.TaskGroup) -> Launched:
    """Start the worker's Python with this role.

    Args:
        role: what it is to become.
        settings: its Python and its device.
        task_group: reads what it prints, for as long as it lives.

    Raises:
        WorkerUnavailable: that Python cannot be started.
    """
    # A zygote is trusted: it hands back descriptors of what it has forked.
    channel, theirs = Channel.pair(takes_descriptors=role == "zygote")
    folder = Path(tempfile.mkdtemp(prefix=f"egg-{role}-"))
    output = OutputPipe(settings.max_output_bytes)
    try:
        process = await _open(role, settings, folder, theirs, output.theirs)
    except OSError as error:
        channel.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkerUnavailable(
            f"cannot start {str(settings.worker_python)!r}: {error}. Name a Python that has "
            "torch and triton with --worker-python or EGG_WORKER_PYTHON."
        ) from error
    finally:
        theirs.close()
        output.hand_over()
        task_group.start_soon(output.drain)
    live_groups.add(process.pid, folder)
    return Launched(SpawnedProcess(process), channel, output, folder)


async def _open(
    role: str, settings: Settings, folder: Path, theirs: socket, output: int
) -> anyio.abc.Process:
    command = [
        *(str(settings.worker_python), "-P", str(LAUNCH_FILE)),
        *("--role", role, "--socket", str(theirs.fileno())),
        *("--parent", str(os.getpid()), "--device", settings.device),
    ]
    # From the event loop's own thread: the parent-death signal follows the thread that forked,
    # so a helper thread's end would kill the worker.
    return await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=worker_environment(str(folder)),
        start_new_session=True,
        pass_fds=(theirs.fileno(),),
    )
