"""SessionRecord: one optimization of one Problem on one device; survives restarts."""

from __future__ import annotations

from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.stage import Stage


class StageEntry(Record):
    """One time a stage was entered."""

    stage: Stage
    """Which."""
    reason: str
    """Why: the first entry, the stage order, or the client's reason to reopen it."""
    at: str
    """ISO 8601, UTC."""


class SessionRecord(Record):
    """What a session is; its candidates, verdicts and jobs stand beside it in the store."""

    session_id: str
    """Opaque handle, an argument of every stage tool."""
    principal: str
    """Who opened it; others do not see it."""
    problem_hash: str
    """Which Problem."""
    title: str
    """The Problem's title."""
    precision: PrecisionPolicy
    """Fixed for the session."""
    created_at: str
    """ISO 8601, UTC."""
    screening: Screening | None = None
    """What was found about the reference; None until its job is done."""
    stages_entered: tuple[StageEntry, ...] = ()
    """Append-only."""

    @property
    def stage(self) -> Stage:
        """The stage entered last."""
        return self.stages_entered[-1].stage if self.stages_entered else Stage.DESIGN_ALGORITHM
