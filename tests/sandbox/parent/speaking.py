"""A launcher whose workers are scripts: they speak frames over a real socket, and may lie."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.abc

from egg_mcp.sandbox.channel import Channel
from egg_mcp.sandbox.launcher import Launched, Role
from egg_mcp.sandbox.output_pipe import OutputPipe
from egg_mcp.sandbox.process_handle import SpawnedProcess
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport

SPEAKER = Path(__file__).parent / "speaker.py"
FACTS = DeviceFacts(kind="cuda", name="said", python="3", torch="2", triton=None)


class SpeakingLauncher:
    """Starts a speaker for each role; `says` has the script of each: op -> reply."""

    is_running = True
    has_own_files = False
    device = FACTS
    sandbox = SandboxReport(mode="off", failed={})

    def __init__(self, task_group: anyio.abc.TaskGroup, says: dict[Role, str]) -> None:
        self._task_group = task_group
        self._says = says

    async def launch(self, role: Role) -> Launched:
        """As `Launcher.launch`."""
        channel, theirs = Channel.pair()
        output = OutputPipe(4_096)
        with theirs:
            process = await anyio.open_process(
                [sys.executable, str(SPEAKER), str(theirs.fileno()), self._says[role]],
                stdin=subprocess.DEVNULL,
                stdout=output.theirs,
                stderr=output.theirs,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": ""},
            )
        output.hand_over()
        self._task_group.start_soon(output.drain)
        return Launched(SpawnedProcess(process), channel, output, None)

    async def aclose(self) -> None:
        """Nothing to end."""


def open_descriptors() -> int:
    """How many descriptors this process holds."""
    return len(list(Path("/proc/self/fd").iterdir()))
