"""The tool `get_job`."""

from __future__ import annotations

from egg_mcp.tools.arguments import DetailLevel, JobId, WaitS
from egg_mcp.tools.call import DEFAULT_WAIT_S, EggContext, ToolCall
from egg_mcp.tools.result import StageReport
from egg_mcp.tools.stage_report import job_report


async def get_job(
    ctx: EggContext,
    job_id: JobId,
    detail: DetailLevel = "concise",
    wait_s: WaitS = DEFAULT_WAIT_S,
) -> StageReport:
    """Wait for a job that another tool reported as running, and get what it found.

    When: a tool returned status running. Call it again until the status is another one; giving up
    does not end the job, and the job can be found again after a reconnect or a server restart.

    Needs: job_id.
    Returns: the same report that the starting tool would have returned.
    Never: starts work.
    """
    call = ToolCall(ctx)
    job = call.egg.jobs.get(job_id, call.principal)
    return await job_report(call.egg, await call.wait(job, wait_s), detail)
