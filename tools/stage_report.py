"""From a job or a brief to the StageReport that tools return."""

from __future__ import annotations

from egg_mcp.service import Egg
from egg_mcp.session.brief import StageBrief
from egg_mcp.tools import next_step
from egg_mcp.tools.result import Detail, StageReport
from egg_mcp.tools.verdict_view import bounded, headline, view_of
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage


async def brief_report(
    egg: Egg, session: SessionRecord, stage: Stage, warnings: tuple[str, ...] = ()
) -> StageReport:
    """What asking a stage, without a kernel, returns."""
    standing = egg.standing(session.session_id)
    brief = await egg.brief(session, stage)
    champion = standing.champion
    if brief is None:
        return StageReport(
            summary="The worker side has not said yet what it runs on; it may still be starting.",
            next_step=f'{stage.value}(session_id="{session.session_id}") again.',
            session_id=session.session_id,
            stage=stage,
            warnings=warnings,
            status="running",
        )
    return StageReport(
        summary=_brief_summary(stage, brief, champion.candidate.number if champion else None),
        next_step=next_step.after_brief(session, stage, standing),
        session_id=session.session_id,
        stage=stage,
        warnings=warnings,
        status="brief",
        champion=champion.candidate.number if champion else None,
        brief=brief,
    )


async def job_report(
    egg: Egg, job: Job, detail: Detail, warnings: tuple[str, ...] = ()
) -> StageReport:
    """What a job, running or ended, looks like to its caller."""
    if job.status is JobStatus.RUNNING:
        return _bare(
            job,
            f"Job {job.job_id} still runs: {job.progress}.",
            next_step.after_running(job),
            warnings,
        )
    if job.status is not JobStatus.DONE:
        step = next_step.after_failure(job)
        if job.verdict is not None:
            step = next_step.NOT_ON_THIS_MACHINE
        report = _bare(job, _unfinished(job), step, warnings)
        verdict = view_of(job.verdict) if job.verdict else None
        return report.model_copy(update={"verdict": verdict})
    if job.kind == "screen":
        return await _screened(egg, job, detail, warnings)
    return _judged(egg, job, detail, warnings)


async def _screened(egg: Egg, job: Job, detail: Detail, warnings: tuple[str, ...]) -> StageReport:
    if job.session_id is None or job.screening is None:
        raise AssertionError("a screening belongs to a session and has a result")
    if job.screening.status != "ok":
        return _bare(
            job,
            f"The reference was refused ({job.screening.status}): {job.screening.explanation}",
            next_step.after_refusal(job.screening),
            warnings,
        ).model_copy(update={"screening": job.screening})
    session = egg.session(job.session_id, job.principal)
    report = await brief_report(egg, session, Stage.DESIGN_ALGORITHM, warnings)
    problem = report.brief.problem if report.brief else session.title
    return report.model_copy(
        update={
            "summary": f"Session open. {problem}.",
            "status": "done",
            "job_id": job.job_id,
            "screening": job.screening if detail == "full" else None,
        }
    )


def _judged(egg: Egg, job: Job, detail: Detail, warnings: tuple[str, ...]) -> StageReport:
    if job.verdict is None:
        raise AssertionError("a finished evaluation has a verdict")
    report = _bare(job, headline(job.verdict, job.candidate), "", warnings).model_copy(
        update={
            "verdict": view_of(job.verdict),
            "full_verdict": bounded(job.verdict) if detail == "full" else None,
        }
    )
    if job.session_id is None or job.candidate is None:
        step = next_step.after_verdict_alone(job.verdict)
        return report.model_copy(update={"next_step": step})
    session = egg.session(job.session_id, job.principal)
    standing = egg.standing(job.session_id)
    champion = standing.champion
    return report.model_copy(
        update={
            "next_step": next_step.after_verdict(
                session, _latest(job.stage, session.stage), standing, job.candidate, job.verdict
            ),
            "champion": champion.candidate.number if champion else None,
        }
    )


def _bare(job: Job, summary: str, step: str, warnings: tuple[str, ...]) -> StageReport:
    return StageReport(
        summary=summary,
        next_step=step,
        session_id=job.session_id,
        stage=job.stage,
        warnings=warnings,
        status=job.status.value,  # pyright: ignore[reportArgumentType] - the same words
        job_id=job.job_id,
        candidate=job.candidate,
        fault=job.fault,
    )


def _latest(one: Stage, other: Stage) -> Stage:
    """The later of two stages: what follows a job never leads back without a reason."""
    return max(one, other, key=list(Stage).index)


def _unfinished(job: Job) -> str:
    about = f"Candidate {job.candidate}" if job.candidate else f"Job {job.job_id}"
    how = {
        JobStatus.FAILED: f"the machine failed, not the candidate: {job.error}",
        JobStatus.CANCELLED: "cancelled; its processes are gone.",
        JobStatus.INTERRUPTED: "the server that ran its job went away before it ended.",
    }[job.status]
    mend = f" {job.fault.next_step}" if job.fault else ""
    return f"{about}: {how}{mend}"


def _brief_summary(stage: Stage, brief: StageBrief, champion: int | None) -> str:
    tried = len(brief.attempts) + brief.left_out
    lead = f"champion is candidate {champion}" if champion else "no correct candidate yet"
    return (
        f"Brief for {stage.value}: {brief.objective} {brief.problem}. {tried} tried in this stage; "
        f"{lead}. {len(brief.guidelines)} guidelines chosen."
    )
