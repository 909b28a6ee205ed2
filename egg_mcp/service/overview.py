"""Sessions in a line each."""

from __future__ import annotations

from egg_mcp.service.egg import Egg
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage


class SessionLine(Record):
    """One session in the list."""

    session_id: str
    """Its handle."""
    title: str
    """The Problem's title."""
    stage: Stage
    """Where it stands."""
    candidates: int
    """How many were handed in."""
    champion: int | None
    """The best correct one."""
    speedup_vs_eager: float | None
    """The champion's, None when not measured."""
    created_at: str
    """ISO 8601, UTC."""


def session_line(egg: Egg, session: SessionRecord) -> SessionLine:
    """The session in a line."""
    standing = egg.standing(session.session_id)
    champion = standing.champion
    return SessionLine(
        session_id=session.session_id,
        title=session.title,
        stage=session.stage,
        candidates=len(standing.attempts),
        champion=champion.candidate.number if champion else None,
        speedup_vs_eager=round(champion.speedup, 3) if champion and champion.speedup else None,
        created_at=session.created_at,
    )
