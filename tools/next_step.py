"""Which call comes next: always one, with its reason."""

from __future__ import annotations

from egg_mcp.session.standing import Standing
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Rigor, Verdict, VerdictStatus

STALE_ATTEMPTS = 3
"""So many attempts in a stage without a new champion, and the next stage is suggested."""

NOT_ON_THIS_MACHINE = "design_algorithm(reference_code=...) on a server with a GPU; here the same call ends the same way."

_ON_THE_REFERENCE = (
    VerdictStatus.REFERENCE_FAILED,
    VerdictStatus.TASK_DEGENERATE,
    VerdictStatus.TASK_NONDETERMINISTIC,
)
"""Verdicts that a mended kernel would not change."""


def after_running(job: Job) -> str:
    """While the job runs."""
    return f'get_job(job_id="{job.job_id}"): the work goes on by itself.'


def after_failure(job: Job) -> str:
    """After the machine failed, or its server went away."""
    return (
        f"{job.stage.value}(<the same arguments>): nothing is lost, and it runs afresh. If it fails "
        "again, run `egg-mcp doctor` on that machine."
    )


def after_refusal(screening: Screening) -> str:
    """After a reference was refused."""
    if screening.status == "infra_error":
        return NOT_ON_THIS_MACHINE
    return "design_algorithm(reference_code=<mended reference>): this session stays as a record."


def after_brief(session: SessionRecord, stage: Stage, standing: Standing) -> str:
    """After a stage was asked for its brief."""
    if stage is Stage.VERIFY_AND_BENCHMARK:
        return _call(session, stage, "") + ": judges the champion at full rigor."
    parent = standing.champion.candidate.number if standing.champion else None
    start = f", parent={parent}" if parent else ""
    return (
        f"{_call(session, stage, f', kernel_code=<your kernel>{start}, rationale=<why>')}: hand in "
        "a kernel that follows the brief."
    )


def after_verdict(
    session: SessionRecord, stage: Stage, standing: Standing, number: int, verdict: Verdict
) -> str:
    """After a candidate was judged."""
    if verdict.status in _ON_THE_REFERENCE:
        return (
            "The reference failed, not the candidate: make the same call again. If it fails again, "
            "design_algorithm(reference_code=<mended reference>) opens a new session."
        )
    if not verdict.status.is_correct:
        return _after_incorrect(session, stage, standing, number, verdict)
    if stage is not Stage.VERIFY_AND_BENCHMARK:
        return _after_correct(session, stage, standing, number)
    more = f", candidate={number}"
    if verdict.rigor is Rigor.QUICK:
        return f"{_call(session, stage, more)}: so far it was judged at quick rigor only."
    return f'export_kernel(session_id="{session.session_id}"{more}): the final verdict holds.'


def after_verdict_alone(verdict: Verdict) -> str:
    """After a stand-alone evaluation."""
    if verdict.status.is_correct:
        return "Use it; or design_algorithm(reference_code=...) to make it faster in stages."
    return "verify_and_benchmark(reference_code=..., kernel_code=<mended>)."


def _after_incorrect(
    session: SessionRecord, stage: Stage, standing: Standing, number: int, verdict: Verdict
) -> str:
    champion = standing.champion.candidate.number if standing.champion else None
    if champion is not None and stage is Stage.VERIFY_AND_BENCHMARK:
        return (
            f"{_call(session, stage, '')}: judges candidate {champion}, which leads the pool now; "
            "or reopen an earlier stage with a mended kernel."
        )
    if champion is None and stage is not Stage.DESIGN_ALGORITHM:
        why = f'reopen_reason="candidate {number}: {verdict.status.value}"'
        more = f", kernel_code=<mended>, parent={number}, {why}"
        return f"{_call(session, Stage.DESIGN_ALGORITHM, more)}: no correct candidate is left."
    more = f", kernel_code=<mended>, parent={number}, rationale=<what you mended>"
    return f"{_call(session, stage, more)}: mend what the verdict names."


def _after_correct(session: SessionRecord, stage: Stage, standing: Standing, number: int) -> str:
    attempts = standing.of_stage(stage)
    following = stage.following
    leads = standing.champion is not None and standing.champion.candidate.number == number
    stale = _since_champion(standing, stage) >= STALE_ATTEMPTS
    verdict = attempts[-1].verdict if attempts else None
    if leads and verdict is not None and verdict.custom_kernel == "none":
        more = f", kernel_code=<Triton kernels>, parent={number}, rationale=<what they do>"
        return f"{_call(session, stage, more)}: it launches no kernel of its own, so there is nothing to tune."
    if stage is Stage.DESIGN_ALGORITHM and len(attempts) < 2:
        return (
            f"{_call(session, stage, ', kernel_code=<another structure>')}: compare a second, "
            "structurally different kernel before tuning."
        )
    if following is None:
        raise AssertionError("the last stage takes no candidates")
    if leads or stale:
        why = "it leads the pool" if leads else f"{STALE_ATTEMPTS} attempts brought no new champion"
        return f"{_call(session, following, '')}: {why}, so go on to the next stage's brief."
    champion = standing.champion.candidate.number if standing.champion else number
    return (
        f"{_call(session, stage, f', kernel_code=<next idea>, parent={champion}')}: it did not "
        "beat the champion."
    )


def _since_champion(standing: Standing, stage: Stage) -> int:
    """Attempts of this stage after the champion was handed in."""
    champion = standing.champion
    last = champion.candidate.number if champion else 0
    return sum(1 for attempt in standing.of_stage(stage) if attempt.candidate.number > last)


def _call(session: SessionRecord, stage: Stage, more: str) -> str:
    return f'{stage.value}(session_id="{session.session_id}"{more})'
