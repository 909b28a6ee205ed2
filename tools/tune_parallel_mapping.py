"""The tool `tune_parallel_mapping`."""

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


async def tune_parallel_mapping(
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
    """Stage 2a, parallel mapping: grid, program-to-work mapping, work split. Structure is frozen.

    When: after design_algorithm has a correct champion. Call it first with session_id alone: it
    returns the brief (what is decided, what was tried, 3 to 5 guidelines chosen for this problem,
    what may change). Then hand in a kernel with kernel_code or kernel_file: it is run in a process
    of its own, judged against a float64 oracle on inputs it has never seen, timed against live
    eager PyTorch on a GPU, and recorded. Change the grid, the mapping from program_id to work,
    split-K, persistent loops; leave the kernels, block shapes, num_warps and num_stages alone.

    Needs: session_id with a correct candidate.
    Returns: brief or verdict, the champion, and the exact next call; or status running and a
    job_id for get_job. The same kernel again returns its first job.
    Never: trusts a kernel's own timing, or lets a wrong or slower kernel replace the champion.
    """
    return await stage_step(
        ToolCall(ctx),
        Stage.TUNE_PARALLEL_MAPPING,
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
