"""Docket: what work is started, and what is answered with work that was done before."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from egg_mcp.errors import UnknownCandidate
from egg_mcp.executor import Executor, Report
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.service.job_runner import JobRunner
from egg_mcp.service.source_input import SourceInput, title_of
from egg_mcp.store import Store
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.record import content_hash, utc_now
from egg_mcp.vocabulary.session import SessionRecord, StageEntry
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Rigor, VerdictStatus

_NOT_WORTH_KEEPING = (
    VerdictStatus.INFRA_ERROR,
    VerdictStatus.REFERENCE_FAILED,
    VerdictStatus.TASK_DEGENERATE,
    VerdictStatus.TASK_NONDETERMINISTIC,
    VerdictStatus.TIMED_OUT,
)
"""Outcomes that may change without the source changing: the same call runs again."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A kernel handed in at a stage."""

    source: str
    parent: int | None
    rationale: str
    guidelines_applied: tuple[str, ...]


class Docket:
    """Turns requests into jobs. The same content is the same job, as long as its outcome holds."""

    def __init__(self, store: Store, executor: Executor, jobs: JobRunner) -> None:
        self._store = store
        self._executor = executor
        self._jobs = jobs

    def candidate(self, session_id: str, number: int) -> Candidate:
        """The session's candidate of that number.

        Raises:
            UnknownCandidate: there is none.
        """
        found = self._store.candidates.get(session_id, number)
        if found is None:
            count = len(self._store.candidates.of_session(session_id))
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
        problem = _problem_of(reference)
        key = content_hash(f"screen {problem.problem_hash} {precision} {principal}")
        known = self._store.jobs.by_key(key)
        if known is not None and not fresh and self._still_holds(known):
            return known
        self._store.problems.put(problem)
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
        self._store.sessions.create(session)

        async def work(report: Report) -> Screening:
            return await self._executor.screen(problem, report)

        return self._jobs.start(self._new_job("screen", key, session, Stage.DESIGN_ALGORITHM), work)

    def submit(self, session: SessionRecord, stage: Stage, submission: Submission) -> Job:
        """Record a candidate and judge it; the same source in one session is judged once.

        Raises:
            UnknownCandidate: the parent does not exist.
        """
        if submission.parent is not None:
            self.candidate(session.session_id, submission.parent)
        candidate, _ = self._store.candidates.add(
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
        source = self._store.candidates.source_of(candidate)
        key = content_hash(f"{session.session_id} {candidate.kernel_hash} {rigor}")
        problem = self._store.problems.get(session.problem_hash)
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
        problem = _problem_of(reference)
        self._store.problems.put(problem)
        kernel_hash = self._store.sources.put(kernel.text)
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

    def _evaluate(
        self, job: Job, problem: Problem, source: str, policy: PrecisionPolicy, rigor: Rigor
    ) -> Job:
        known = self._store.jobs.by_key(job.key)
        if known is not None and self._still_holds(known):
            return known

        async def work(report: Report) -> Evaluation:
            return await self._executor.evaluate(problem, source, policy, rigor, report)

        return self._jobs.start(job, work)

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
        device = self._executor.known_device
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


def _problem_of(reference: SourceInput) -> Problem:
    return Problem(
        problem_hash=content_hash(reference.text),
        title=title_of(reference),
        source=reference.text,
    )
