"""Egg: what the tools, resources and prompts ask of the application."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import anyio

from egg_mcp.errors import StageOrderError, UnknownCandidate, UnknownSession
from egg_mcp.executor import Executor, Report
from egg_mcp.expert_knowledge.library import Library, load_library
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.service.job_runner import JobRunner
from egg_mcp.service.source_input import SourceInput, title_of
from egg_mcp.session.brief import GuidelineLine, StageBrief, build_brief
from egg_mcp.session.standing import Standing, attempt_of
from egg_mcp.settings import Settings
from egg_mcp.store import Store
from egg_mcp.store.owner import Owner, is_alive
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.record import content_hash, utc_now
from egg_mcp.vocabulary.session import SessionRecord, StageEntry
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Rigor, VerdictStatus

GUIDELINES_IN_BRIEF = 5
_PROBE_WAIT_S = 20.0

_NOT_WORTH_KEEPING = (
    VerdictStatus.INFRA_ERROR,
    VerdictStatus.REFERENCE_FAILED,
    VerdictStatus.TASK_DEGENERATE,
    VerdictStatus.TASK_NONDETERMINISTIC,
    VerdictStatus.TIMED_OUT,
)
"""Outcomes that may change without the source changing: the same call runs again."""

Publish = Callable[[str], Awaitable[None]]
"""Takes the URI of a resource that has changed."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A kernel handed in at a stage."""

    source: str
    parent: int | None
    rationale: str
    guidelines_applied: tuple[str, ...]


class Egg:
    """Sessions, stages and jobs. One per server process."""

    def __init__(
        self, settings: Settings, store: Store, executor: Executor, jobs: JobRunner
    ) -> None:
        self.settings = settings
        self.store = store
        self.executor = executor
        self.jobs = jobs
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

    def candidate(self, session_id: str, number: int) -> Candidate:
        """The session's candidate of that number.

        Raises:
            UnknownCandidate: there is none.
        """
        found = self.store.candidates.get(session_id, number)
        if found is None:
            count = len(self.store.candidates.of_session(session_id))
            known = f"it has 1 to {count}" if count else "it has none yet"
            raise UnknownCandidate(
                f"the session has no candidate {number}: {known}. "
                f'session_status(session_id="{session_id}") lists them.'
            )
        return found

    def open_session(
        self, reference: SourceInput, precision: PrecisionPolicy, principal: str, *, fresh: bool
    ) -> Job:
        """Open a session on this reference and run it by itself; the job knows the session.

        The same reference under the same policy finds its first session, unless `fresh`.

        Raises:
            InvalidReference: not in KernelBench form.
        """
        problem = Problem(
            problem_hash=content_hash(reference.text),
            title=title_of(reference),
            source=reference.text,
        )
        key = content_hash(f"screen {problem.problem_hash} {precision} {principal}")
        known = self.store.jobs.by_key(key)
        if known is not None and not fresh and self._still_holds(known):
            return known
        self.store.problems.put(problem)
        session = SessionRecord(
            session_id=secrets.token_hex(16),
            principal=principal,
            problem_hash=problem.problem_hash,
            title=problem.title,
            precision=precision,
            created_at=utc_now(),
            stages_entered=(
                StageEntry(stage=Stage.DESIGN_ALGORITHM, reason="opened", at=utc_now()),
            ),
        )
        self.store.sessions.create(session)

        async def work(report: Report) -> Screening:
            return await self.executor.screen(problem, report)

        return self.jobs.start(self._new_job("screen", key, session, Stage.DESIGN_ALGORITHM), work)

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

    def submit(self, session: SessionRecord, stage: Stage, submission: Submission) -> Job:
        """Record a candidate and judge it; the same source in one session is judged once.

        Raises:
            UnknownCandidate: the parent does not exist.
        """
        if submission.parent is not None:
            self.candidate(session.session_id, submission.parent)
        candidate, _ = self.store.candidates.add(
            session.session_id,
            stage,
            submission.source,
            submission.parent,
            submission.rationale,
            submission.guidelines_applied,
        )
        return self.judge(session, stage, candidate, Rigor.QUICK)

    def judge(
        self, session: SessionRecord, stage: Stage, candidate: Candidate, rigor: Rigor
    ) -> Job:
        """Judge a recorded candidate at that rigor; a verdict that stands is not made again."""
        source = self.store.candidates.source_of(candidate)
        key = content_hash(f"{session.session_id} {candidate.kernel_hash} {rigor}")
        problem = self.store.problems.get(session.problem_hash)
        job = self._new_job("evaluate", key, session, stage).model_copy(
            update={
                "candidate": candidate.number,
                "kernel_hash": candidate.kernel_hash,
                "rigor": rigor,
            }
        )
        return self._evaluate(job, problem, source, session.precision, rigor)

    def judge_alone(
        self,
        reference: SourceInput,
        kernel: SourceInput,
        precision: PrecisionPolicy,
        rigor: Rigor,
        principal: str,
    ) -> Job:
        """Judge a kernel against a reference with no session.

        Raises:
            InvalidReference: not in KernelBench form.
        """
        problem = Problem(
            problem_hash=content_hash(reference.text),
            title=title_of(reference),
            source=reference.text,
        )
        self.store.problems.put(problem)
        kernel_hash = self.store.sources.put(kernel.text)
        words = f"alone {problem.problem_hash} {kernel_hash} {precision} {rigor} {principal}"
        job = Job(
            job_id=secrets.token_hex(16),
            kind="evaluate",
            key=content_hash(words),
            status=JobStatus.RUNNING,
            stage=Stage.VERIFY_AND_BENCHMARK,
            principal=principal,
            problem_hash=problem.problem_hash,
            kernel_hash=kernel_hash,
            rigor=rigor,
            created_at=utc_now(),
        )
        return self._evaluate(job, problem, kernel.text, precision, rigor)

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

    def _evaluate(
        self, job: Job, problem: Problem, source: str, policy: PrecisionPolicy, rigor: Rigor
    ) -> Job:
        known = self.store.jobs.by_key(job.key)
        if known is not None and self._still_holds(known):
            return known

        async def work(report: Report) -> Evaluation:
            return await self.executor.evaluate(problem, source, policy, rigor, report)

        return self.jobs.start(job, work)

    def _still_holds(self, job: Job) -> bool:
        """Whether an identical request may be answered with this job."""
        if job.status is JobStatus.RUNNING:
            return True
        if job.status is not JobStatus.DONE:
            return False
        if job.screening is not None:
            return job.screening.status == "ok"
        if job.verdict is None or job.verdict.status in _NOT_WORTH_KEEPING:
            return False
        device = self.executor.known_device
        return device is None or job.verdict.device == device

    def _new_job(self, kind: str, key: str, session: SessionRecord, stage: Stage) -> Job:
        return Job.model_validate(
            {
                "job_id": secrets.token_hex(16),
                "kind": kind,
                "key": key,
                "status": JobStatus.RUNNING,
                "stage": stage,
                "session_id": session.session_id,
                "principal": session.principal,
                "problem_hash": session.problem_hash,
                "created_at": utc_now(),
            }
        )

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
