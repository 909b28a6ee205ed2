"""The tool `verify_and_benchmark`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from egg_mcp.errors import RequestError, StageOrderError
from egg_mcp.service.source_input import source_input
from egg_mcp.tools.arguments import (
    Candidate,
    DetailLevel,
    KernelCode,
    KernelFile,
    Precision,
    ReferenceCode,
    ReferenceFile,
    WaitS,
)
from egg_mcp.tools.call import DEFAULT_WAIT_S, EggContext, ToolCall
from egg_mcp.tools.result import StageReport
from egg_mcp.tools.stage_report import job_report
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Rigor

OptionalSessionId = Annotated[
    str | None,
    Field(description="Handle of a session; leave out to judge a kernel alone.", max_length=64),
]
RigorLevel = Annotated[
    Rigor,
    Field(description="final: every trial and 15 timing rounds. quick: fewer of both."),
]


async def verify_and_benchmark(
    ctx: EggContext,
    session_id: OptionalSessionId = None,
    candidate: Candidate = None,
    reference_code: ReferenceCode = None,
    reference_file: ReferenceFile = None,
    kernel_code: KernelCode = None,
    kernel_file: KernelFile = None,
    precision: Precision = PrecisionPolicy.STRICT,
    rigor: RigorLevel = Rigor.FINAL,
    detail: DetailLevel = "concise",
    wait_s: WaitS = DEFAULT_WAIT_S,
) -> StageReport:
    """Stage 3, the final judgement: is this kernel right, and how fast is it really?

    Two uses. (1) In a session: session_id, optionally candidate (default: the champion). (2) Alone:
    reference_code and kernel_code (or files), with precision; no session is opened.

    The kernel never sees reference, seeds, expected outputs or clock. It is judged against a
    float64 oracle on fresh, rescaled, zero-mean, repeated and swapped-in-place inputs; exact dtype,
    shape and structure; unchanged inputs. On a GPU it is timed in interleaved random-order rounds
    against live eager PyTorch, with an A/A noise floor, an outside clock, and a timed call checked.

    Needs: a session with a correct candidate, or both sources.
    Returns: verdict with speedup, interval and trust; or status running and a job_id for get_job.
    The same content again returns its first job.
    Never: says pass without a GPU (emulated_pass, no speed), or gives a speedup it does not trust.
    """
    call = ToolCall(ctx)
    settings = call.egg.settings
    reference = source_input("reference", reference_code, reference_file, settings)
    kernel = source_input("kernel", kernel_code, kernel_file, settings)
    if session_id is not None:
        if reference is not None or kernel is not None:
            raise RequestError(
                "give session_id (and candidate), or reference and kernel, not both. A new kernel "
                "of a session goes to design_algorithm or a tuning stage."
            )
        job, warnings = _in_session(call, session_id, candidate, rigor)
    elif reference is None or kernel is None:
        raise RequestError(
            "give session_id to judge its champion, or reference_code and kernel_code to judge a "
            "kernel alone"
        )
    else:
        job = call.egg.docket.judge_alone(reference, kernel, precision, rigor, call.principal)
        warnings = ()
    return await job_report(call.egg, await call.wait(job, wait_s), detail, warnings)


def _in_session(
    call: ToolCall, session_id: str, number: int | None, rigor: Rigor
) -> tuple[Job, tuple[str, ...]]:
    session = call.egg.session(session_id, call.principal)
    stage = Stage.VERIFY_AND_BENCHMARK
    if number is not None:
        chosen = call.egg.docket.candidate(session_id, number)
        call.egg.check_entry(session, Stage.DESIGN_ALGORITHM)
        warnings: tuple[str, ...] = ()
    else:
        session, warnings = call.egg.enter(session, stage, None)
        champion = call.egg.standing(session_id).champion
        if champion is None:
            raise StageOrderError("this session has no correct candidate yet")
        chosen = champion.candidate
    return call.egg.docket.judge(session, stage, chosen, rigor), warnings
