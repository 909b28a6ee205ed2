"""Launcher: how a worker comes into being."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from egg_mcp.sandbox.channel import Channel
from egg_mcp.sandbox.output_pipe import OutputPipe
from egg_mcp.sandbox.process_handle import ProcessHandle
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport

Role = Literal["referee", "candidate", "canary", "compiler"]

LAUNCH_FILE = Path(__file__).resolve().parent / "worker" / "launch.py"
_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "CC"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBCUDA_PATH"),
)


@dataclass(frozen=True, slots=True)
class Launched:
    """A worker's process that has not said ready yet."""

    process: ProcessHandle
    channel: Channel
    output: OutputPipe
    folder: Path | None
    """A folder on this machine that goes with it; None where its files are its own namespace's."""


class Launcher(Protocol):
    """Starts processes for one device."""

    @property
    def is_running(self) -> bool:
        """Whether it can launch."""
        ...

    @property
    def device(self) -> DeviceFacts:
        """What its workers compute on, and what they are confined by."""
        ...

    @property
    def sandbox(self) -> SandboxReport:
        """What stands between its workers and this machine."""
        ...

    @property
    def has_own_files(self) -> bool:
        """Whether every worker sees its folder at the same path, and nobody else does."""
        ...

    async def launch(self, role: Role) -> Launched:
        """Start a worker's process.

        Raises:
            WorkerUnavailable: it cannot be started.
        """
        ...

    async def aclose(self) -> None:
        """End every process that it has started. May be called again."""
        ...


def worker_environment(folder: str) -> dict[str, str]:
    """A cleared environment: what CUDA and Triton need, and caches nobody else has."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        "LANG": "C.UTF-8",
        **kept,
        "HOME": folder,
        "TMPDIR": folder,
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TORCH_EXTENSIONS_DIR": f"{folder}/extensions",
        "CUDA_CACHE_PATH": f"{folder}/cuda",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
