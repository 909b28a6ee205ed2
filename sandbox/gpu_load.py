"""GpuLoad: whether a GPU computes at this moment, as its driver's own tool says."""

from __future__ import annotations

import shutil
import subprocess

import anyio

_DEADLINE_S = 5.0
_BUSY_PERCENT = 90


async def gpu_is_busy(uuid: str | None) -> bool:
    """Whether kernels ran almost all of the last moment; False where nobody can tell.

    Args:
        uuid: the GPU's, as torch gives it; None for the first.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    which = ["-i", uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"] if uuid else ["-i", "0"]
    command = [tool, *which, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        with anyio.fail_after(_DEADLINE_S):
            done = await anyio.run_process(command, stderr=subprocess.DEVNULL)
        return int(done.stdout.decode("ascii", "replace").strip()) >= _BUSY_PERCENT
    except (OSError, ValueError, TimeoutError, subprocess.CalledProcessError):
        return False
