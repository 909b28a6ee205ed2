"""The tool `optimize_memory`."""

from __future__ import annotations

from egg_mcp.tools.arguments import (
    DetailLevel,
    GuidelinesApplied,
    KernelCode,
    KernelFile,
    Parent,
    Rationale,
    ReopenReason,
    SessionId,
    WaitS,
)
from egg_mcp.tools.call import DEFAULT_WAIT_S, EggContext, ToolCall
from egg_mcp.tools.result import StageReport
from egg_mcp.tools.stage_step import stage_step
from egg_mcp.vocabulary.stage import Stage


async def optimize_memory(
    ctx: EggContext,
    session_id: SessionId,
    kernel_code: KernelCode = None,
    kernel_file: KernelFile = None,
    parent: Parent = None,
    rationale: Rationale = "",
    guidelines_applied: GuidelinesApplied = None,
    reopen_reason: ReopenReason = None,
    detail: DetailLevel = "concise",
    wait_s: WaitS = DEFAULT_WAIT_S,
) -> StageReport:
    """Stage 2c, memory: access order, vector width, masks, caching, num_warps, num_stages, pipelining.

    When: after tune_tiling, or as soon as there is a correct champion. Call it first with
    session_id alone for the brief; then hand in kernels that move the same bytes more cheaply.
    Each is judged and timed like in every stage and recorded with its parent.

    Needs: session_id with a correct candidate.
    Returns: brief or verdict, the champion, and the exact next call; or status running and a
    job_id for get_job. The same kernel again returns its first job.
    Never: lets a wrong or slower kernel replace the champion.
    """
    return await stage_step(
        ToolCall(ctx),
        Stage.OPTIMIZE_MEMORY,
        session_id,
        kernel_code=kernel_code,
        kernel_file=kernel_file,
        parent=parent,
        rationale=rationale,
        guidelines_applied=guidelines_applied,
        reopen_reason=reopen_reason,
        detail=detail,
        wait_s=wait_s,
    )
