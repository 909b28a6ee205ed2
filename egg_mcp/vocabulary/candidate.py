"""Candidate: one kernel source handed in at one stage; immutable, content-hashed."""

from __future__ import annotations

from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.stage import Stage


class Candidate(Record):
    """One node of a session's tree."""

    session_id: str
    """The session it belongs to."""
    number: int
    """1, 2, 3 ... in the order of submission."""
    stage: Stage
    """The stage it was handed in at."""
    kernel_hash: str
    """SHA-256 of its source."""
    parent: int | None
    """The candidate it was made from; None for a fresh start."""
    rationale: str
    """Why, in the client's words."""
    guidelines_applied: tuple[str, ...]
    """Ids of the guidelines the client says it followed."""
    created_at: str
    """ISO 8601, UTC."""
