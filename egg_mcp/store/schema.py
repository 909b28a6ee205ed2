"""The tables, as an ordered list of migrations. A released migration is never edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from egg_mcp.errors import StateError, StateTooNew
from egg_mcp.store.failures import OTHER_PLACE

Migration = tuple[str, ...]

VERSION_1: Migration = (
    # Text that came from outside is a BLOB: UTF-8 in which half a surrogate pair may stand.
    """
    CREATE TABLE sources (
        source_hash TEXT PRIMARY KEY,
        text BLOB NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE problems (
        problem_hash TEXT PRIMARY KEY REFERENCES sources,
        document TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL UNIQUE,
        principal TEXT NOT NULL,
        problem_hash TEXT NOT NULL REFERENCES problems,
        created_at TEXT NOT NULL,
        revision INTEGER NOT NULL,
        document TEXT NOT NULL
    )
    """,
    "CREATE INDEX sessions_of_principal ON sessions (principal, created_at, number)",
    """
    CREATE TABLE candidates (
        session_id TEXT NOT NULL REFERENCES sessions (session_id),
        number INTEGER NOT NULL,
        kernel_hash TEXT NOT NULL REFERENCES sources,
        document TEXT NOT NULL,
        PRIMARY KEY (session_id, number),
        UNIQUE (session_id, kernel_hash)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE verdicts (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        candidate INTEGER NOT NULL,
        job_id TEXT,
        created_at TEXT NOT NULL,
        document TEXT NOT NULL,
        samples TEXT,
        FOREIGN KEY (session_id, candidate) REFERENCES candidates (session_id, number)
    )
    """,
    "CREATE INDEX verdicts_of_session ON verdicts (session_id, number)",
    "CREATE INDEX verdicts_of_candidate ON verdicts (session_id, candidate, number)",
    """
    CREATE TABLE jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        job_id TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL,
        status TEXT NOT NULL,
        owner TEXT NOT NULL,
        session_id TEXT REFERENCES sessions (session_id),
        created_at TEXT NOT NULL,
        document TEXT NOT NULL,
        samples TEXT
    )
    """,
    "CREATE INDEX jobs_of_key ON jobs (key, number)",
    "CREATE INDEX jobs_of_session ON jobs (session_id, number)",
    "CREATE INDEX jobs_running ON jobs (owner, number) WHERE status = 'running'",
    """
    CREATE TABLE job_log (
        job_id TEXT NOT NULL REFERENCES jobs (job_id),
        start INTEGER NOT NULL,
        size INTEGER NOT NULL,
        text BLOB NOT NULL,
        PRIMARY KEY (job_id, start)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE artifacts (
        session_id TEXT NOT NULL,
        candidate INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text BLOB NOT NULL,
        PRIMARY KEY (session_id, candidate, kind),
        FOREIGN KEY (session_id, candidate) REFERENCES candidates (session_id, number)
    )
    """,
)

MIGRATIONS: tuple[Migration, ...] = (VERSION_1,)
"""The first makes version 1 of an empty file, the second makes version 2 of that, and so on."""


def migrate(
    connection: sqlite3.Connection, file: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring the file to the newest version, each step in an exclusive transaction of its own.

    Args:
        connection: in autocommit mode.
        file: where it is, for messages.
        migrations: other than the released ones only in tests.

    Raises:
        StateTooNew: a newer release has migrated it already; it was not touched.
        StateError: it is a SQLite file, and not one of ours.
    """
    while (version := _version(connection)) < len(migrations):
        connection.execute("BEGIN EXCLUSIVE")
        try:
            # Another server may have done it while this one waited for the lock.
            if _version(connection) == version:
                _refuse_foreign(connection, file, version)
                for statement in migrations[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if version > len(migrations):
        raise StateTooNew(
            f"the state file {str(file)!r} has version {version}, written by a newer release of "
            f"egg-mcp; this release knows versions up to {len(migrations)}. Upgrade egg-mcp, or "
            f"{OTHER_PLACE} for a state of its own"
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _refuse_foreign(connection: sqlite3.Connection, file: Path, version: int) -> None:
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if version == 0 and has_tables:
        raise StateError(
            f"{str(file)!r} is another program's SQLite file; move it away, or {OTHER_PLACE}"
        )
