"""Egg: what the tools, resources and prompts ask of the application."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio

from egg_mcp.errors import StageOrderError, UnknownSession
from egg_mcp.executor import Executor
from egg_mcp.expert_knowledge.library import Library, load_library
from egg_mcp.service.docket import Docket
from egg_mcp.service.job_runner import JobRunner
from egg_mcp.session.brief import GuidelineLine, StageBrief, build_brief
from egg_mcp.session.standing import Standing, attempt_of
from egg_mcp.settings import Settings
from egg_mcp.store import Store
from egg_mcp.store.owner import Owner, is_alive
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.record import utc_now
from egg_mcp.vocabulary.session import SessionRecord, StageEntry
from egg_mcp.vocabulary.stage import Stage

GUIDELINES_IN_BRIEF = 5
_PROBE_WAIT_S = 20.0

Publish = Callable[[str], Awaitable[None]]
"""Takes the URI of a resource that has changed."""


class Egg:
    """Sessions, stages and jobs. One per server process."""

    def __init__(
        self, settings: Settings, store: Store, executor: Executor, jobs: JobRunner
    ) -> None:
        self.settings = settings
        self.store = store
        self.executor = executor
        self.jobs = jobs
        self.docket = Docket(store, executor, jobs)
        self.library: Library = load_library()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, settings: Settings, executor: Executor, publish: Publish
    ) -> AsyncGenerator[Egg]:
        """Open the state, adopt what dead servers left, and run until left.

        Raises:
            StateError: the state folder cannot be used.
        """
        store = Store.open(settings.state_dir)
        owner = Owner.open(settings.state_dir)

        async def on_change(job: Job) -> None:
            for uri in changed_uris(job):
                await publish(uri)

        try:
            store.jobs.interrupt_orphans(lambda owner_id: is_alive(settings.state_dir, owner_id))
            async with anyio.create_task_group() as task_group:
                yield cls(
                    settings,
                    store,
                    executor,
                    JobRunner(store, owner.owner_id, task_group, on_change),
                )
                task_group.cancel_scope.cancel()
        finally:
            owner.close()
            store.close()

    def session(self, session_id: str, principal: str) -> SessionRecord:
        """The session of that id.

        Raises:
            UnknownSession: none, or another principal's.
        """
        record = self.store.sessions.get(session_id)
        if record is None or record.principal != principal:
            raise UnknownSession(
                f"no session {session_id!r} is known here. session_status() lists the known ones; "
                "design_algorithm(reference_code=...) opens one."
            )
        if record.screening is None:
            return self._with_screening(record)
        return record

    def standing(self, session_id: str) -> Standing:
        """All attempts of the session and its champions."""
        verdicts = self.store.verdicts.of_session(session_id)
        return Standing(
            tuple(
                attempt_of(candidate, verdicts.get(candidate.number, ()))
                for candidate in self.store.candidates.of_session(session_id)
            )
        )

    def check_entry(self, session: SessionRecord, stage: Stage) -> None:
        """Whether the stage may be entered.

        Raises:
            StageOrderError: it may not; the message names the call that is missing.
        """
        if session.screening is None:
            raise StageOrderError(
                "the reference has not been run yet: wait for its job (session_status lists it), "
                "or call design_algorithm with the same reference again"
            )
        if session.screening.status != "ok":
            raise StageOrderError(
                f"the reference cannot be judged against ({session.screening.status}): "
                f"{session.screening.explanation[:600]} Then call design_algorithm("
                "reference_code=...) with the mended one."
            )
        if stage is Stage.DESIGN_ALGORITHM or self.standing(session.session_id).champion:
            return
        raise StageOrderError(
            f"{stage.value} needs a correct candidate, and this session has none yet. Next: "
            f'design_algorithm(session_id="{session.session_id}", kernel_code=...)'
        )

    def enter(
        self, session: SessionRecord, stage: Stage, reopen_reason: str | None
    ) -> tuple[SessionRecord, tuple[str, ...]]:
        """Enter a stage, if its entry condition holds; entering the current one changes nothing.

        Returns:
            The session as it is now, and warnings.

        Raises:
            StageOrderError: no sound reference or no champion yet, or an earlier stage without
                a reason.
        """
        self.check_entry(session, stage)
        stages = list(Stage)
        step = stages.index(stage) - stages.index(session.stage)
        if step == 0:
            return session, ()
        if step < 0 and not (reopen_reason or "").strip():
            raise StageOrderError(
                f"the session is at {session.stage.value}; going back to {stage.value} needs a "
                f'reason: {stage.value}(session_id="{session.session_id}", reopen_reason=<why>, ...)'
            )
        warnings = self._skipped(session, stage)
        entry = StageEntry(stage=stage, reason=(reopen_reason or "next")[:300], at=utc_now())
        changed = self.store.sessions.change(
            session.session_id,
            lambda kept: kept.model_copy(update={"stages_entered": (*kept.stages_entered, entry)}),
        )
        return changed, warnings

    async def device(self, session: SessionRecord | None = None) -> DeviceFacts | None:
        """What code runs on; None when the worker side does not say so within a while."""
        if self.executor.known_device is not None:
            return self.executor.known_device
        if session is not None and session.screening is not None and session.screening.device:
            return session.screening.device
        with anyio.move_on_after(_PROBE_WAIT_S):
            return await self.executor.device()
        return None

    async def brief(self, session: SessionRecord, stage: Stage) -> StageBrief | None:
        """The stage's brief; None while it is not known what code runs on."""
        device = await self.device(session)
        if device is None:
            return None
        standing = self.standing(session.session_id)
        applied = {
            name for attempt in standing.attempts for name in attempt.candidate.guidelines_applied
        }
        families = session.screening.families if session.screening else ()
        chosen = self.library.select(
            stage,
            families,
            device.arch,
            session.precision,
            applied=tuple(sorted(applied)),
            limit=GUIDELINES_IN_BRIEF,
        )
        lines = tuple(
            GuidelineLine(
                id=one.guideline.id,
                title=one.guideline.title,
                rule=one.guideline.rule,
                why=one.reason,
            )
            for one in chosen
        )
        return build_brief(session, stage, standing, device, lines)

    def _with_screening(self, record: SessionRecord) -> SessionRecord:
        """The record with what its screening job has found meanwhile, written down once."""
        for job in self.store.jobs.of_session(record.session_id):
            if job.kind == "screen" and job.screening is not None:
                found = {"screening": job.screening}
                return self.store.sessions.change(
                    record.session_id, functools.partial(SessionRecord.model_copy, update=found)
                )
        return record

    def _skipped(self, session: SessionRecord, stage: Stage) -> tuple[str, ...]:
        stages = list(Stage)
        between = stages[stages.index(session.stage) + 1 : stages.index(stage)]
        entered = {entry.stage for entry in session.stages_entered}
        skipped = [one.value for one in between if one not in entered]
        return (f"skipped on the way here: {', '.join(skipped)}",) if skipped else ()


def changed_uris(job: Job) -> tuple[str, ...]:
    """The resources that a job's end changes."""
    uris = [f"egg://jobs/{job.job_id}/log"]
    if job.session_id is not None:
        session = f"egg://sessions/{job.session_id}"
        uris += ["egg://sessions", session, f"{session}/report"]
        if job.candidate is not None:
            uris.append(f"{session}/candidates/{job.candidate}/verdict")
    return tuple(uris)
