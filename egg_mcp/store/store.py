"""Store: the state file and the nouns in it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from egg_mcp.store.candidates import Artifacts, Candidates
from egg_mcp.store.connection import STATE_FILE_NAME, Connection
from egg_mcp.store.jobs import Jobs
from egg_mcp.store.sessions import Sessions
from egg_mcp.store.sources import Problems, Sources
from egg_mcp.store.verdicts import Verdicts


class Store:
    """All that this product remembers. What a method has written is on disk when it returns.

    Every method may raise StateFull, StateUnwritable or StateError; then it has written nothing.

    Attributes:
        connection: the state file itself.
        sources: texts by hash.
        problems: Problems by hash.
        sessions: sessions by id.
        candidates: candidates by session and number.
        verdicts: verdicts by session and candidate.
        jobs: jobs by id, and their logs.
        artifacts: long texts by session, candidate and kind.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sources = Sources(connection)
        self.problems = Problems(connection, self.sources)
        self.sessions = Sessions(connection)
        self.candidates = Candidates(connection, self.sources)
        self.verdicts = Verdicts(connection)
        self.jobs = Jobs(connection)
        self.artifacts = Artifacts(connection)

    @classmethod
    def open(cls, state_dir: Path) -> Store:
        """Open the state in that folder; make folder and file when they are missing.

        Raises:
            StateUnwritable: the folder or the file cannot be written.
            StateFull: no space is left for it.
            StateTooNew: a newer release wrote it.
            StateError: the file is damaged, or not one of ours.
        """
        return cls(Connection(state_dir.absolute() / STATE_FILE_NAME))

    @property
    def file(self) -> Path:
        """Where the state file is, absolute."""
        return self.connection.file

    def transaction(self) -> AbstractContextManager[None]:
        """Keep all writes of a `with` block together, or none of them.

        Let an exception of a method inside leave the block: half of it must not be kept.
        """
        return self.connection.transaction()

    def close(self) -> None:
        """Close the file. Closing twice does nothing."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
