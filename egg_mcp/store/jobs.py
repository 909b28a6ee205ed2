"""Jobs: kept before they start, changed while they run, final once they have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egg_mcp.errors import UnknownJob
from egg_mcp.store.connection import Connection, Row
from egg_mcp.store.documents import (
    dump,
    from_bytes,
    job_with_samples,
    job_without_samples,
    load,
    to_bytes,
)
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.record import utc_now

_READ = "SELECT document, samples FROM jobs WHERE"


@dataclass(frozen=True, slots=True)
class LogPage:
    """A piece of a job's log. Places are counted in characters."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """Where the next page starts; None at the end of what is there now."""
        end = self.offset + len(self.text)
        return end if end < self.total else None


class Jobs:
    """Every job and its log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, job: Job, owner: str) -> None:
        """Keep a new job of that server.

        Raises:
            StateError: the id is taken, or the session is not there.
        """
        bare, samples = job_without_samples(job)
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO jobs "
                "(job_id, key, status, owner, session_id, created_at, document, samples) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                job.job_id,
                job.key,
                job.status,
                owner,
                job.session_id,
                job.created_at,
                dump(bare),
                samples,
            )

    def get(self, job_id: str, *, samples: bool = False) -> Job | None:
        """One job; None when there is none of that id.

        Args:
            job_id: which.
            samples: whether its verdict shall hold the raw timing samples.
        """
        row = self._connection.row(f"{_READ} job_id = ?", job_id)
        return _job(row, samples=samples) if row else None

    def by_key(self, key: str) -> Job | None:
        """The newest job of that key, whatever became of it."""
        row = self._connection.row(f"{_READ} key = ? ORDER BY number DESC LIMIT 1", key)
        return _job(row) if row else None

    def update(self, job: Job) -> Job:
        """Put the job in the place of what is kept of it, unless that has ended.

        Returns:
            The job as it is now on disk: the one given, or the end that came before it.

        Raises:
            UnknownJob: there is none of that id.
        """
        bare, samples = job_without_samples(job)
        with self._connection.transaction():
            changed = self._connection.execute(
                "UPDATE jobs SET status = ?, document = ?, samples = ? "
                "WHERE job_id = ? AND status = ?",
                job.status,
                dump(bare),
                samples,
                job.job_id,
                JobStatus.RUNNING,
            )
            if changed:
                return job
            kept = self.get(job.job_id, samples=True)
        if kept is None:
            raise UnknownJob(f"no job {job.job_id!r} in this state folder")
        return kept

    def running(self, owner: str | None = None) -> tuple[Job, ...]:
        """The jobs that run, oldest first: those of one server, or of all."""
        rows = self._connection.rows(
            f"{_READ} status = 'running' AND owner = coalesce(?, owner) ORDER BY number", owner
        )
        return tuple(_job(row) for row in rows)

    def of_session(self, session_id: str) -> tuple[Job, ...]:
        """All jobs of a session, oldest first."""
        rows = self._connection.rows(f"{_READ} session_id = ? ORDER BY number", session_id)
        return tuple(_job(row) for row in rows)

    def interrupt_orphans(self, is_alive: Callable[[str], bool]) -> tuple[Job, ...]:
        """End, as interrupted, the running jobs of servers that are gone.

        Args:
            is_alive: whether the server of that owner id still runs.

        Returns:
            The jobs that this call ended.
        """
        owners = self._connection.rows("SELECT DISTINCT owner FROM jobs WHERE status = 'running'")
        dead = [str(row[0]) for row in owners if not is_alive(row[0])]
        if not dead:
            return ()
        with self._connection.transaction():
            return tuple(
                self.update(_interrupted(job)) for owner in dead for job in self.running(owner)
            )

    def append_log(self, job_id: str, text: str) -> None:
        """Add text to the end of the job's log.

        Raises:
            StateError: there is no such job.
        """
        if not text:
            return
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO job_log VALUES (?, ?, ?, ?)",
                job_id,
                self._log_size(job_id),
                len(text),
                to_bytes(text),
            )

    def log(self, job_id: str, offset: int = 0, limit: int = 10_000) -> LogPage:
        """A piece of the job's log: at most `limit` characters from `offset` on."""
        total = self._log_size(job_id)
        offset = min(max(0, offset), total)
        end = min(offset + max(0, limit), total)
        rows = self._connection.rows(
            "SELECT start, text FROM job_log WHERE job_id = ? AND start < ? AND start + size > ? "
            "ORDER BY start",
            job_id,
            end,
            offset,
        )
        text = "".join(from_bytes(row[1]) for row in rows)
        first = rows[0][0] if rows else offset
        return LogPage(text[offset - first : end - first], offset, total)

    def _log_size(self, job_id: str) -> int:
        row = self._connection.row(
            "SELECT start + size FROM job_log WHERE job_id = ? ORDER BY start DESC LIMIT 1", job_id
        )
        return int(row[0]) if row else 0


def _job(row: Row, *, samples: bool = False) -> Job:
    job = load(Job, row[0])
    return job_with_samples(job, row[1]) if samples else job


def _interrupted(job: Job) -> Job:
    return job.model_copy(
        update={
            "status": JobStatus.INTERRUPTED,
            "fault": Fault.SERVER_DIED,
            "finished_at": utc_now(),
            "error": "the server that ran this job went away; ask for the same work again",
        }
    )
