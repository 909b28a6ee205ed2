"""JobRunner: work that outlives the call that asked for it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.abc

from egg_mcp.errors import EggError, SandboxError, StateError, UnknownJob
from egg_mcp.executor import Report
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.store import Store
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.record import Record, utc_now
from egg_mcp.vocabulary.verdict import VerdictStatus

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
"""How often a waiting call tells its client that it is alive."""

_INTERRUPTED = {"status": JobStatus.INTERRUPTED, "fault": Fault.SERVER_DIED}

AnyRecord = TypeVar("AnyRecord", bound=Record)
Outcome = Screening | Evaluation
Work = Callable[[Report], Awaitable[Outcome]]
Heartbeat = Callable[[float, str], Awaitable[None]]
OnChange = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a job ended and what is written down with it."""

    job: Job
    printed: str = ""
    asm: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Live:
    """A job that runs in this process."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    progress: str = "queued"
    cancelled_by_caller: bool = False


class JobRunner:
    """Starts jobs, lets callers wait for them, and writes down how they end."""

    def __init__(
        self,
        store: Store,
        owner_id: str,
        task_group: anyio.abc.TaskGroup,
        on_change: OnChange,
    ) -> None:
        self._store = store
        self._owner_id = owner_id
        self._task_group = task_group
        self._on_change = on_change
        self._live: dict[str, _Live] = {}
        self._unsaved: dict[str, _Ending] = {}

    def start(self, job: Job, work: Work) -> Job:
        """Write the job down, then run it."""
        self._store.jobs.add(job, self._owner_id)
        live = self._live[job.job_id] = _Live()
        self._task_group.start_soon(self._run, job, work, live)
        return job

    def get(self, job_id: str, principal: str) -> Job:
        """The job as it stands.

        Raises:
            UnknownJob: none of that id, or another principal's.
        """
        job = self._saved_late(job_id) or self._store.jobs.get(job_id)
        if job is None or job.principal != principal:
            raise UnknownJob(
                f"no job {job_id!r} is known here. session_status(session_id=...) lists the jobs of "
                "a session; the same submission again finds its job, too."
            )
        if job.status is JobStatus.RUNNING:
            live = self._live.get(job_id)
            progress = live.progress if live else "running in another server on this state"
            return job.model_copy(update={"progress": progress})
        return job

    async def wait(self, job_id: str, principal: str, wait_s: float, heartbeat: Heartbeat) -> Job:
        """Wait for the job's end, at most `wait_s` seconds; a beat each second.

        The caller giving up does not end the job.
        """
        deadline = anyio.current_time() + wait_s
        beat = 0.0
        while True:
            job = self.get(job_id, principal)
            left_s = deadline - anyio.current_time()
            if job.status.is_final or left_s <= 0:
                return job
            live = self._live.get(job_id)
            with anyio.move_on_after(min(HEARTBEAT_S, left_s)):
                if live is not None:
                    await live.ended.wait()
                else:
                    await anyio.sleep(HEARTBEAT_S)
            beat += 1
            await heartbeat(beat, self.get(job_id, principal).progress)

    async def cancel(self, job_id: str, principal: str) -> Job:
        """End the job if it runs in this server; its processes are gone when this returns.

        Raises:
            UnknownJob: none of that id, or another principal's.
        """
        job = self.get(job_id, principal)
        live = self._live.get(job_id)
        if job.status.is_final or live is None:
            return job
        live.cancelled_by_caller = True
        live.scope.cancel()
        await live.ended.wait()
        return self.get(job_id, principal)

    async def _run(self, job: Job, work: Work, live: _Live) -> None:
        async def report(line: str) -> None:
            if line != live.progress:
                live.progress = line
                with contextlib.suppress(StateError):  # a full disk must not end the work
                    self._store.jobs.append_log(job.job_id, f"{utc_now()} {line}\n")

        ending = _Ending(job.model_copy(update=_INTERRUPTED))
        try:
            with live.scope:
                ending = await _ending_of(job, work, report)
            if live.scope.cancelled_caught:
                cancelled = {
                    "status": JobStatus.CANCELLED,
                    "error": "cancelled by the caller",
                    "fault": Fault.CANCELLED,
                }
                ending = _Ending(job.model_copy(update=cancelled))
        finally:
            try:
                self._save(ending)
            except StateError as error:
                log.warning("job %s cannot be written down yet: %s", job.job_id, error)
                self._unsaved[job.job_id] = ending
            self._live.pop(job.job_id, None)
            live.ended.set()
        await self._on_change(ending.job)

    def _save(self, ending: _Ending) -> None:
        """Write down how a job ended: all of it, or nothing."""
        job = ending.job.model_copy(
            update={"finished_at": utc_now(), "progress": ending.job.status.value}
        )
        with self._store.transaction():
            if job.session_id is not None and job.candidate is not None and job.verdict:
                self._store.verdicts.add(job.session_id, job.candidate, job.verdict, job.job_id)
                for kind, text in ending.asm.items():
                    self._store.artifacts.put(job.session_id, job.candidate, kind, text)
            if ending.printed:
                self._store.jobs.append_log(job.job_id, f"--- printed ---\n{ending.printed}\n")
            self._store.jobs.update(job)

    def _saved_late(self, job_id: str) -> Job | None:
        """A job whose end could not be written down: tried again, else shown as failed."""
        ending = self._unsaved.get(job_id)
        if ending is None:
            return None
        try:
            self._save(ending)
        except StateError as error:
            text = f"the work is done, but cannot be written down: {error}. It is kept in memory."
            # Without its verdict, which would read as if that had failed.
            failed = {"status": JobStatus.FAILED, "error": text, "fault": Fault.MACHINE}
            return ending.job.model_copy(update={**failed, "verdict": None})
        del self._unsaved[job_id]
        return None


async def _ending_of(job: Job, work: Work, report: Report) -> _Ending:
    """Do the work; every failure becomes an ending."""
    try:
        outcome = _whole_outcome(await work(report))
    except EggError as error:
        log.warning("job %s failed: %s", job.job_id, error)
        fault = Fault(error.fault) if isinstance(error, SandboxError) else Fault.MACHINE
        failure = {"status": JobStatus.FAILED, "error": _whole(str(error)), "fault": fault}
        return _Ending(job.model_copy(update=failure))
    except Exception as error:  # a bug here must end one job, not the server
        log.exception("job %s failed", job.job_id)
        text = _whole(f"internal error: {type(error).__name__}: {error}")
        update = {"status": JobStatus.FAILED, "error": text, "fault": Fault.MACHINE}
        return _Ending(job.model_copy(update=update))
    if isinstance(outcome, Screening):
        return _Ending(job.model_copy(update={"status": JobStatus.DONE, "screening": outcome}))
    verdict = outcome.verdict
    failed = verdict.status is VerdictStatus.INFRA_ERROR
    update = {
        "status": JobStatus.FAILED if failed else JobStatus.DONE,
        "error": verdict.explanation if failed else None,
        "fault": (verdict.fault or Fault.MACHINE) if failed else None,
        "verdict": verdict,
    }
    return _Ending(job.model_copy(update=update), outcome.printed, outcome.asm)


def _whole_outcome(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Screening):
        return _whole_record(outcome)
    asm = {_whole(kind): _whole(text) for kind, text in outcome.asm.items()}
    return Evaluation(_whole_record(outcome.verdict), _whole(outcome.printed), asm)


def _whole(text: str) -> str:
    """The text without half surrogate pairs: user code can send them, and no client takes them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _whole_record(record: AnyRecord) -> AnyRecord:
    """The record with every text in it whole; measured values, also odd ones, stay as they are."""
    text = json.dumps(record.model_dump(mode="python"), ensure_ascii=False)
    return type(record).model_validate(json.loads(_whole(text)))
