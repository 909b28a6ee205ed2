"""Job: one piece of long work that outlives the call that started it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Rigor, Verdict


class JobStatus(StrEnum):
    """Where a job stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """The machine failed; the work may be asked for again."""
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """The server that ran it went away; the work may be asked for again."""

    @property
    def is_final(self) -> bool:
        """Whether it will not change any more."""
        return self is not JobStatus.RUNNING


class Job(Record):
    """One piece of work and what came of it."""

    job_id: str
    """Opaque."""
    kind: Literal["screen", "evaluate"]
    """`screen`: run the reference alone. `evaluate`: judge a candidate."""
    key: str
    """Hash of all that decides the outcome: the same key is the same job."""
    status: JobStatus
    """Where it stands."""
    stage: Stage
    """The stage it was started from."""
    session_id: str | None = None
    """None for a stand-alone evaluation."""
    principal: str
    """Who started it."""
    candidate: int | None = None
    """The candidate's number in its session."""
    problem_hash: str
    """Which Problem."""
    kernel_hash: str | None = None
    """Which kernel; None when only the reference runs."""
    rigor: Rigor | None = None
    """How much is tried; None when only the reference runs."""
    created_at: str
    """ISO 8601, UTC."""
    finished_at: str | None = None
    """ISO 8601, UTC."""
    progress: str = "queued"
    """The last thing it said."""
    error: str | None = None
    """Why it failed."""
    fault: Fault | None = None
    """Which failure of the machine, server or caller ended it; None where it ran to its end."""
    screening: Screening | None = None
    """What a `screen` job found."""
    verdict: Verdict | None = None
    """What an `evaluate` job found."""
