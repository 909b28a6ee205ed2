"""Sessions: the one kind of record that changes, always as a whole and in one transaction."""

from __future__ import annotations

from collections.abc import Callable

from egg_mcp.errors import UnknownSession
from egg_mcp.store.connection import Connection
from egg_mcp.store.documents import dump, load
from egg_mcp.vocabulary.session import SessionRecord


class Sessions:
    """What every session is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, record: SessionRecord) -> None:
        """Keep a new session. Its Problem is kept before it.

        Raises:
            StateError: the id is taken, or the Problem is not there.
        """
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO sessions "
                "(session_id, principal, problem_hash, created_at, revision, document) "
                "VALUES (?, ?, ?, ?, 1, ?)",
                record.session_id,
                record.principal,
                record.problem_hash,
                record.created_at,
                dump(record),
            )

    def get(self, session_id: str) -> SessionRecord | None:
        """The session as it is now; None when there is none of that id."""
        row = self._connection.row("SELECT document FROM sessions WHERE session_id = ?", session_id)
        return load(SessionRecord, row[0]) if row else None

    def change(
        self, session_id: str, edit: Callable[[SessionRecord], SessionRecord]
    ) -> SessionRecord:
        """Replace the session by what `edit` makes of it; no other server comes between.

        Args:
            session_id: which.
            edit: gets the session as it is on disk. It is short: every server waits for it.

        Returns:
            The session as it is now on disk.

        Raises:
            UnknownSession: there is none of that id.
            ValueError: `edit` changed what a session is born with.
        """
        with self._connection.transaction():
            before = self.get(session_id)
            if before is None:
                raise UnknownSession(f"no session {session_id!r} in this state folder")
            after = edit(before)
            if _birth(after) != _birth(before):
                raise ValueError(f"the session became {_birth(after)!r}; was {_birth(before)!r}")
            self._connection.execute(
                "UPDATE sessions SET document = ?, revision = revision + 1 WHERE session_id = ?",
                dump(after),
                session_id,
            )
        return after

    def revision(self, session_id: str) -> int:
        """How often the session was written, 0 when there is none: it changed when this grew."""
        row = self._connection.row("SELECT revision FROM sessions WHERE session_id = ?", session_id)
        return int(row[0]) if row else 0

    def list(self, principal: str, limit: int, offset: int = 0) -> tuple[SessionRecord, ...]:
        """The principal's sessions, newest first."""
        rows = self._connection.rows(
            "SELECT document FROM sessions WHERE principal = ? "
            "ORDER BY created_at DESC, number DESC LIMIT ? OFFSET ?",
            principal,
            max(0, limit),
            max(0, offset),
        )
        return tuple(load(SessionRecord, row[0]) for row in rows)

    def count(self, principal: str) -> int:
        """How many sessions the principal has."""
        row = self._connection.row("SELECT count(*) FROM sessions WHERE principal = ?", principal)
        return int(row[0]) if row else 0


def _birth(record: SessionRecord) -> tuple[str, str, str, str]:
    return record.session_id, record.principal, record.problem_hash, record.created_at
