"""Verdicts: append-only; a candidate may have several, the newest counts."""

from __future__ import annotations

from egg_mcp.store.connection import Connection
from egg_mcp.store.documents import dump, load, with_samples, without_samples
from egg_mcp.store.growth import Growth
from egg_mcp.vocabulary.record import utc_now
from egg_mcp.vocabulary.verdict import Verdict


class Verdicts:
    """What was found about every candidate.

    Raw timing samples stand beside the verdict and are read only when asked for.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._growth: Growth[tuple[int, Verdict]] = Growth()

    def add(
        self, session_id: str, number: int, verdict: Verdict, job_id: str | None = None
    ) -> None:
        """Keep a verdict about candidate `number`.

        Raises:
            StateError: the session has no such candidate.
        """
        bare, samples = without_samples(verdict)
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO verdicts "
                "(session_id, candidate, job_id, created_at, document, samples) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                session_id,
                number,
                job_id,
                utc_now(),
                dump(bare),
                samples,
            )

    def latest(self, session_id: str, number: int, *, samples: bool = False) -> Verdict | None:
        """The newest verdict about one candidate; None when it has none."""
        row = self._connection.row(
            "SELECT document, samples FROM verdicts WHERE session_id = ? AND candidate = ? "
            "ORDER BY number DESC LIMIT 1",
            session_id,
            number,
        )
        if row is None:
            return None
        verdict = load(Verdict, row[0])
        return with_samples(verdict, row[1]) if samples else verdict

    def of_session(
        self, session_id: str, *, samples: bool = False
    ) -> dict[int, tuple[Verdict, ...]]:
        """All verdicts of a session by candidate, each oldest first."""
        found: dict[int, list[Verdict]] = {}
        pairs = self._with_samples(session_id) if samples else self._without(session_id)
        for number, verdict in pairs:
            found.setdefault(number, []).append(verdict)
        return {number: tuple(verdicts) for number, verdicts in sorted(found.items())}

    def _without(self, session_id: str) -> tuple[tuple[int, Verdict], ...]:
        last, known = self._growth.of(session_id)
        rows = self._connection.rows(
            "SELECT number, candidate, document FROM verdicts "
            "WHERE session_id = ? AND number > ? ORDER BY number",
            session_id,
            last,
        )
        if not rows:
            return known
        found = (*known, *((row[1], load(Verdict, row[2])) for row in rows))
        if not self._connection.in_transaction:
            self._growth.keep(session_id, rows[-1][0], found)
        return found

    def _with_samples(self, session_id: str) -> list[tuple[int, Verdict]]:
        rows = self._connection.rows(
            "SELECT candidate, document, samples FROM verdicts WHERE session_id = ? "
            "ORDER BY number",
            session_id,
        )
        return [(row[0], with_samples(load(Verdict, row[1]), row[2])) for row in rows]
