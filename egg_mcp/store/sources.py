"""Sources and Problems: text under the name of its own hash, written once."""

from __future__ import annotations

import json

from egg_mcp.store.connection import Connection, required
from egg_mcp.store.documents import dump, from_bytes, to_bytes
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash


class Sources:
    """Source texts, each kept once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, text: str) -> str:
        """Keep the text; its hash. A text that is there already is not written again."""
        source_hash = content_hash(text)
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO sources VALUES (?, ?) ON CONFLICT DO NOTHING",
                source_hash,
                to_bytes(text),
            )
        return source_hash

    def get(self, source_hash: str) -> str:
        """The text of that hash.

        Raises:
            StateError: there is none; a hash that the store gave out always has one.
        """
        row = self._connection.row("SELECT text FROM sources WHERE source_hash = ?", source_hash)
        return from_bytes(required(row, self._connection, f"source {source_hash!r}")[0])


class Problems:
    """Problems, each kept once; the first title stays."""

    def __init__(self, connection: Connection, sources: Sources) -> None:
        self._connection = connection
        self._sources = sources

    def put(self, problem: Problem) -> None:
        """Keep the Problem and its source.

        Raises:
            ValueError: its hash is not the hash of its source.
        """
        with self._connection.transaction():
            if self._sources.put(problem.source) != problem.problem_hash:
                raise ValueError(f"{problem.problem_hash!r} is not the hash of the source")
            self._connection.execute(
                "INSERT INTO problems VALUES (?, ?) ON CONFLICT DO NOTHING",
                problem.problem_hash,
                dump(problem, leave_out={"source"}),
            )

    def get(self, problem_hash: str) -> Problem:
        """The Problem of that hash.

        Raises:
            StateError: there is none; a session's Problem is always there.
        """
        row = self._connection.row(
            "SELECT document, text FROM problems JOIN sources ON source_hash = problem_hash "
            "WHERE problem_hash = ?",
            problem_hash,
        )
        document, text = required(row, self._connection, f"Problem {problem_hash!r}")
        return Problem.model_validate({**_fields(document), "source": from_bytes(text)})


def _fields(document: str) -> dict[str, object]:
    return json.loads(document)
