"""CompileAhead: a candidate's kernels, compiled on the CPU while others have the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio

from egg_mcp.errors import EggError
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.shared_file import SharedFile
from egg_mcp.sandbox.worker_process import UserCodeError, WorkerProcess
from egg_mcp.settings import Settings

_MOST_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class CompiledAhead:
    """Triton's cache as the compiler left it. Untrusted: goes to the same candidate, and no other."""

    file: SharedFile
    cache: list[dict[str, Any]]
    """Path, offset and size of each file in `file`."""

    def close(self) -> None:
        """Let it go."""
        self.file.close()


async def compile_ahead(
    launcher: Launcher, settings: Settings, source: str, forms: dict[str, Any]
) -> CompiledAhead | None:
    """Compile what the candidate launches, in a box without a GPU.

    Args:
        launcher: on a GPU; its workers must see their folders at the same path.
        settings: its deadlines.
        source: the candidate's.
        forms: as `Referee.forms`.

    Returns:
        What was compiled; None where nothing was.
    """
    arch = (launcher.device.arch or "").removeprefix("sm_")
    if launcher.device.kind != "cuda" or not launcher.has_own_files or not arch.isdecimal():
        return None
    file = SharedFile("compiled", _MOST_CACHE_BYTES)
    worker: WorkerProcess | None = None
    cache: list[dict[str, Any]] = []
    try:
        worker = await WorkerProcess.start("compiler", launcher, settings)
        cache = await _compile(
            worker, settings, file, {"source": source, "arch": int(arch), **forms}
        )
    except (UserCodeError, EggError):
        cache = []  # it will be compiled on the way, and fail there if it must
    finally:
        with anyio.CancelScope(shield=True):
            if worker is not None:
                await worker.aclose()
        if not cache:
            file.close()
    return CompiledAhead(file, cache) if cache else None


async def _compile(
    worker: WorkerProcess, settings: Settings, file: SharedFile, request: dict[str, Any]
) -> list[dict[str, Any]]:
    deadline_s = settings.build_deadline_s
    with SharedFile("empty") as empty:
        file.seal_size()
        fds = (empty.readable_fd, file.writable_fd)
        await worker.call("open_files", phase="compile ahead", deadline_s=deadline_s, fds=fds)
        reply = await worker.call(
            "compile", phase="compile ahead", deadline_s=deadline_s, **request
        )
    return list(reply.get("cache", ()))
