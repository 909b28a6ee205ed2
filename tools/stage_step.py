"""The walk that the four submitting stages share: ask for the brief, or hand in a kernel."""

from __future__ import annotations

from egg_mcp.service.docket import Submission
from egg_mcp.service.source_input import source_input
from egg_mcp.tools.call import ToolCall
from egg_mcp.tools.result import Detail, StageReport
from egg_mcp.tools.stage_report import brief_report, job_report
from egg_mcp.vocabulary.stage import Stage


async def stage_step(
    call: ToolCall,
    stage: Stage,
    session_id: str,
    *,
    kernel_code: str | None,
    kernel_file: str | None,
    parent: int | None,
    rationale: str,
    guidelines_applied: list[str] | None,
    reopen_reason: str | None,
    detail: Detail,
    wait_s: float,
) -> StageReport:
    """Enter the stage; return its brief, or judge the kernel that was handed in.

    Raises:
        RequestError: unknown session or parent, a stage whose entry condition does not hold,
            or a source that cannot be taken.
    """
    session = call.egg.session(session_id, call.principal)
    kernel = source_input("kernel", kernel_code, kernel_file, call.egg.settings)
    if parent is not None:
        call.egg.docket.candidate(session_id, parent)  # a refused call must not enter the stage
    session, warnings = call.egg.enter(session, stage, reopen_reason)
    if kernel is None:
        return await brief_report(call.egg, session, stage, warnings)
    job = call.egg.docket.submit(
        session,
        stage,
        Submission(kernel.text, parent, rationale, tuple(guidelines_applied or ())),
    )
    job = await call.wait(job, wait_s)
    return await job_report(call.egg, job, detail, warnings)
