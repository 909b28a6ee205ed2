"""The tool `design_algorithm`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from egg_mcp.errors import RequestError
from egg_mcp.service.source_input import source_input
from egg_mcp.tools.arguments import (
    DetailLevel,
    GuidelinesApplied,
    KernelCode,
    KernelFile,
    Parent,
    Precision,
    Rationale,
    ReferenceCode,
    ReferenceFile,
    ReopenReason,
    WaitS,
)
from egg_mcp.tools.call import DEFAULT_WAIT_S, EggContext, ToolCall
from egg_mcp.tools.result import Detail, StageReport
from egg_mcp.tools.stage_report import job_report
from egg_mcp.tools.stage_step import stage_step
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.stage import Stage

OptionalSessionId = Annotated[
    str | None,
    Field(description="Handle of a session; leave out to open one.", max_length=64),
]
NewSession = Annotated[
    bool,
    Field(
        description="Open another session although this reference already has one under this policy."
    ),
]


async def design_algorithm(
    ctx: EggContext,
    session_id: OptionalSessionId = None,
    reference_code: ReferenceCode = None,
    reference_file: ReferenceFile = None,
    precision: Precision = PrecisionPolicy.STRICT,
    new_session: NewSession = False,
    kernel_code: KernelCode = None,
    kernel_file: KernelFile = None,
    parent: Parent = None,
    rationale: Rationale = "",
    guidelines_applied: GuidelinesApplied = None,
    reopen_reason: ReopenReason = None,
    detail: DetailLevel = "concise",
    wait_s: WaitS = DEFAULT_WAIT_S,
) -> StageReport:
    """Start here to make a PyTorch module faster. Stage 1, algorithmic structure: sets the ceiling.

    Three uses. (1) Open a session: reference_code or reference_file in KernelBench form
    (class Model, get_inputs, optional get_init_inputs). The reference is run alone, its operators,
    shapes, FLOPs and least bytes are found, and the brief for this stage comes back with
    guidelines. A constant, random or failing reference is refused with the reason. (2) Ask:
    session_id alone returns the brief again. (3) Submit: session_id with kernel_code or kernel_file
    (class ModelNew). The kernel runs in a process of its own, is judged against a float64 oracle
    on inputs it has never seen, timed against live eager PyTorch on a GPU, and recorded. Try two or
    more structurally different kernels here before tuning.

    Needs: nothing. Sessions live on disk until deleted; only the session_id is needed to go on
    later, from any client.
    Returns: session_id, brief or verdict, champion, next call; or status running and a job_id for
    get_job. The same content again returns its first session or job (new_session overrides).
    Never: writes code for you, or lets a wrong or slower kernel become champion. Without a GPU the
    verdict is emulated_pass at best and there is no speed.
    """
    call = ToolCall(ctx)
    if session_id is None:
        return await _open(
            call,
            reference_code,
            reference_file,
            kernel_code or kernel_file,
            precision,
            new_session,
            detail,
            wait_s,
        )
    if reference_code is not None or reference_file is not None:
        raise RequestError(
            "a session's reference never changes: leave session_id out to open a session on "
            "another reference, or leave the reference out to go on with this session"
        )
    return await stage_step(
        call,
        Stage.DESIGN_ALGORITHM,
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


async def _open(
    call: ToolCall,
    reference_code: str | None,
    reference_file: str | None,
    kernel: str | None,
    precision: PrecisionPolicy,
    new_session: bool,
    detail: Detail,
    wait_s: float,
) -> StageReport:
    reference = source_input("reference", reference_code, reference_file, call.egg.settings)
    if reference is None:
        raise RequestError(
            "give reference_code (or reference_file) to open a session, or session_id to go on "
            "with one; session_status() lists them"
        )
    if kernel is not None:
        raise RequestError(
            "open the session first, then hand the kernel in with its session_id; to judge a "
            "kernel without a session call verify_and_benchmark(reference_code=..., "
            "kernel_code=...)"
        )
    job = call.egg.docket.open_session(reference, precision, call.principal, fresh=new_session)
    job = await call.wait(job, wait_s)
    return await job_report(call.egg, job, detail)
