"""Candidates and what belongs to one: append-only."""

from __future__ import annotations

from egg_mcp.errors import UnknownSession
from egg_mcp.store.connection import Connection
from egg_mcp.store.documents import dump, from_bytes, load, to_bytes
from egg_mcp.store.growth import Growth
from egg_mcp.store.sources import Sources
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.record import content_hash, utc_now
from egg_mcp.vocabulary.stage import Stage


class Candidates:
    """Every kernel handed in, by session and number."""

    def __init__(self, connection: Connection, sources: Sources) -> None:
        self._connection = connection
        self._sources = sources
        self._growth: Growth[Candidate] = Growth()

    def add(
        self,
        session_id: str,
        stage: Stage,
        source: str,
        parent: int | None,
        rationale: str,
        guidelines_applied: tuple[str, ...],
    ) -> tuple[Candidate, bool]:
        """Keep a candidate under the session's next number.

        Returns:
            The candidate, and whether it is new: the same source in the same session is the
            first candidate that had it, as it was.

        Raises:
            UnknownSession: there is none of that id.
        """
        kernel_hash = content_hash(source)
        with self._connection.transaction():
            if known := self._with_hash(session_id, kernel_hash):
                return known, False
            self._sources.put(source)
            candidate = Candidate(
                session_id=session_id,
                number=self._next_number(session_id),
                stage=stage,
                kernel_hash=kernel_hash,
                parent=parent,
                rationale=rationale,
                guidelines_applied=guidelines_applied,
                created_at=utc_now(),
            )
            self._connection.execute(
                "INSERT INTO candidates VALUES (?, ?, ?, ?)",
                session_id,
                candidate.number,
                kernel_hash,
                dump(candidate),
            )
        return candidate, True

    def _with_hash(self, session_id: str, kernel_hash: str) -> Candidate | None:
        row = self._connection.row(
            "SELECT document FROM candidates WHERE session_id = ? AND kernel_hash = ?",
            session_id,
            kernel_hash,
        )
        return load(Candidate, row[0]) if row else None

    def _next_number(self, session_id: str) -> int:
        row = self._connection.row(
            "SELECT (SELECT max(number) FROM candidates AS made "
            "WHERE made.session_id = sessions.session_id) FROM sessions WHERE session_id = ?",
            session_id,
        )
        if row is None:
            raise UnknownSession(f"no session {session_id!r} in this state folder")
        return 1 + (row[0] or 0)

    def get(self, session_id: str, number: int) -> Candidate | None:
        """One candidate; None when the session has none of that number."""
        row = self._connection.row(
            "SELECT document FROM candidates WHERE session_id = ? AND number = ?",
            session_id,
            number,
        )
        return load(Candidate, row[0]) if row else None

    def of_session(self, session_id: str) -> tuple[Candidate, ...]:
        """All candidates of a session, by number."""
        last, known = self._growth.of(session_id)
        rows = self._connection.rows(
            "SELECT number, document FROM candidates WHERE session_id = ? AND number > ? "
            "ORDER BY number",
            session_id,
            last,
        )
        if not rows:
            return known
        found = (*known, *(load(Candidate, row[1]) for row in rows))
        if not self._connection.in_transaction:
            self._growth.keep(session_id, rows[-1][0], found)
        return found

    def source_of(self, candidate: Candidate) -> str:
        """The candidate's source text."""
        return self._sources.get(candidate.kernel_hash)


class Artifacts:
    """Long texts made from a candidate: its PTX, its SASS, and the like."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, session_id: str, candidate: int, kind: str, text: str) -> None:
        """Keep a text of that kind; it takes the place of an earlier one.

        Raises:
            StateError: the session has no such candidate.
        """
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO artifacts VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET text = excluded.text",
                session_id,
                candidate,
                kind,
                to_bytes(text),
            )

    def get(self, session_id: str, candidate: int, kind: str) -> str | None:
        """The text of that kind; None when there is none."""
        row = self._connection.row(
            "SELECT text FROM artifacts WHERE session_id = ? AND candidate = ? AND kind = ?",
            session_id,
            candidate,
            kind,
        )
        return from_bytes(row[0]) if row else None

    def kinds(self, session_id: str, candidate: int) -> tuple[str, ...]:
        """Which kinds there are, in the order of the alphabet."""
        rows = self._connection.rows(
            "SELECT kind FROM artifacts WHERE session_id = ? AND candidate = ? ORDER BY kind",
            session_id,
            candidate,
        )
        return tuple(row[0] for row in rows)
