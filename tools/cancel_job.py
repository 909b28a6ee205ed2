"""The tool `cancel_job`."""

from __future__ import annotations

from egg_mcp.tools.arguments import JobId
from egg_mcp.tools.call import EggContext, ToolCall
from egg_mcp.tools.result import StageReport
from egg_mcp.tools.stage_report import job_report
from egg_mcp.vocabulary.job import JobStatus


async def cancel_job(ctx: EggContext, job_id: JobId) -> StageReport:
    """Stop a running job and kill its processes.

    When: a job is no longer wanted. The candidate stays recorded; the same submission runs afresh.

    Needs: job_id.
    Returns: the job's report, status cancelled; a job that had ended already is left as it was.
    Never: deletes a session, a candidate or a verdict.
    """
    call = ToolCall(ctx)
    job = await call.egg.jobs.cancel(job_id, call.principal)
    warnings: tuple[str, ...] = ()
    if job.status is JobStatus.RUNNING:
        warnings = ("it runs in another server on this state; cancel it there",)
    elif job.status is not JobStatus.CANCELLED:
        warnings = (f"it had ended already: {job.status.value}",)
    return await job_report(call.egg, job, "concise", warnings)
