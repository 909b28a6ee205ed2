"""Canary: does the device still compute?"""

from __future__ import annotations

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut, WorkerUnavailable
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.worker_process import UserCodeError, WorkerProcess
from egg_mcp.settings import Settings

_DEADLINE_S = 30.0


async def sing(launcher: Launcher, settings: Settings) -> str | None:
    """Have a trusted worker compute a known sum on the device.

    Returns:
        None when it is right, else what came instead.

    Raises:
        ZygoteDied: no worker can be started.
    """
    worker: WorkerProcess | None = None
    try:
        worker = await WorkerProcess.start("canary", launcher, settings)
        await worker.call("sing", phase="the canary", deadline_s=_DEADLINE_S)
    except (UserCodeError, WorkerUnavailable, WorkerTimedOut, WorkerDied, ProtocolError) as error:
        return str(error)
    finally:
        if worker is not None:
            await worker.aclose()
    return None
