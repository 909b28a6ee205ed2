"""The tool `session_status`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from egg_mcp.service import Egg
from egg_mcp.service.overview import session_line
from egg_mcp.session.brief import attempt_line, problem_in_words
from egg_mcp.session.standing import Standing
from egg_mcp.tools.call import EggContext, ToolCall
from egg_mcp.tools.result import SessionStatusReport
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage

PAGE = 20
_STAGES_SHOWN = 20
_JOBS_SHOWN = 10

OptionalSessionId = Annotated[
    str | None, Field(description="One session in full; leave out to list all.", max_length=64)
]
Offset = Annotated[
    int | None,
    Field(
        description=(
            "Where the page starts; from next_offset. Null: the newest sessions, or the last "
            "candidates of the session."
        ),
        ge=0,
    ),
]


async def session_status(
    ctx: EggContext, session_id: OptionalSessionId = None, offset: Offset = None
) -> SessionStatusReport:
    """List the sessions, or show one in full: stages, every candidate with parent and verdict, jobs.

    When: to find a session_id again, to take over a session from another client, or to see the
    whole trajectory. The brief of the current stage is in the stage's own tool.

    Needs: nothing.
    Returns: pages of 20; next_offset leads on.
    Never: changes anything.
    """
    call = ToolCall(ctx)
    if session_id is None:
        return _listed(call.egg, call.principal, offset or 0)
    return _in_full(call.egg, call.egg.session(session_id, call.principal), offset)


def _listed(egg: Egg, principal: str, offset: int) -> SessionStatusReport:
    total = egg.store.sessions.count(principal)
    lines = tuple(
        session_line(egg, session) for session in egg.store.sessions.list(principal, PAGE, offset)
    )
    more = offset + len(lines)
    step = (
        "design_algorithm(reference_code=...) opens a session."
        if not lines
        else f'session_status(session_id="{lines[0].session_id}") shows the newest in full.'
    )
    return SessionStatusReport(
        summary=f"{total} sessions; {len(lines)} shown from {offset}, newest first.",
        next_step=step,
        sessions=lines,
        total=total,
        next_offset=more if more < total else None,
        device=egg.executor.known_device,
        state_file=str(egg.settings.state_file),
    )


def _in_full(egg: Egg, session: SessionRecord, offset: int | None) -> SessionStatusReport:
    standing = egg.standing(session.session_id)
    total = len(standing.attempts)
    start = max(0, total - PAGE) if offset is None else offset
    shown = standing.attempts[start : start + PAGE]
    more = start + len(shown)
    device = egg.executor.known_device or (session.screening.device if session.screening else None)
    return SessionStatusReport(
        summary=_summary(session, standing),
        next_step=_next_call(session),
        session_id=session.session_id,
        stage=session.stage,
        total=total,
        next_offset=more if more < total else None,
        problem=problem_in_words(session.title, session.screening),
        precision=session.precision,
        stages_entered=session.stages_entered[-_STAGES_SHOWN:],
        candidates=tuple(attempt_line(attempt) for attempt in shown),
        jobs=tuple(_job_line(job) for job in egg.store.jobs.of_session(session.session_id))[
            -_JOBS_SHOWN:
        ],
        device=device,
        state_file=str(egg.settings.state_file),
    )


def _summary(session: SessionRecord, standing: Standing) -> str:
    champion = standing.champion
    if champion is None:
        lead = "no correct candidate yet"
    else:
        speed = f", {champion.speedup:.3g}x vs eager" if champion.speedup else ", not timed"
        lead = f"champion is candidate {champion.candidate.number}{speed}"
    refused = session.screening is not None and session.screening.status != "ok"
    if refused and session.screening:
        lead = f"its reference was refused: {session.screening.explanation[:400]}"
    return (
        f"{session.title}: at {session.stage.value}, {len(standing.attempts)} candidates under "
        f"{session.precision.value}; {lead}."
    )


def _next_call(session: SessionRecord) -> str:
    if session.screening is not None and session.screening.status != "ok":
        return "design_algorithm(reference_code=<mended reference>) opens a new session."
    if session.stage is Stage.VERIFY_AND_BENCHMARK:
        return f'export_kernel(session_id="{session.session_id}"), or reopen an earlier stage.'
    return f'{session.stage.value}(session_id="{session.session_id}") for its brief.'


def _job_line(job: Job) -> str:
    about = f"candidate {job.candidate}" if job.candidate else "reference"
    found = f": {job.verdict.status.value}" if job.verdict else ""
    return f"{job.job_id} {job.stage.value} {about} {job.status.value}{found}"
