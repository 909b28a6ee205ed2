"""Migrations: forward from every released version, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from egg_mcp.store import Store
from egg_mcp.store.connection import is_on_network
from egg_mcp.store.schema import MIGRATIONS, migrate
from egg_mcp.vocabulary.job import JobStatus
from egg_mcp.vocabulary.stage import Stage

V1 = Path(__file__).parents[2] / "fixtures" / "state" / "v1.sql"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _tables(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(name, " ".join(sql.split())) for name, sql in rows if name != "sqlite_sequence"}


def test_new_file_gets_the_newest_version(connection: sqlite3.Connection) -> None:
    migrate(connection, Path("new"))
    assert _version(connection) == len(MIGRATIONS)
    migrate(connection, Path("new"))
    assert _version(connection) == len(MIGRATIONS)


def test_migration_that_fails_leaves_the_version_before_it(connection: sqlite3.Connection) -> None:
    migrate(connection, Path("old"))
    before = _tables(connection)
    broken = (*MIGRATIONS, ("CREATE TABLE half (x)", "CREATE TABLE half (x)"))
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, Path("old"), broken)
    assert _version(connection) == len(MIGRATIONS)
    assert _tables(connection) == before


def test_later_migrations_run_on_a_file_that_has_the_earlier_ones(
    connection: sqlite3.Connection,
) -> None:
    migrate(connection, Path("old"))
    migrate(connection, Path("old"), (*MIGRATIONS, ("CREATE TABLE more (x)",), ()))
    assert _version(connection) == len(MIGRATIONS) + 2
    assert "more" in {name for name, _ in _tables(connection)}


def test_state_of_version_1_is_read_and_written_on(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "egg.sqlite3")) as old:
        old.executescript(V1.read_text(encoding="utf-8"))
        assert _version(old) == 1
    with Store.open(tmp_path) as store:
        (session,) = store.sessions.list("local", limit=10)
        assert session.stage is Stage.DESIGN_ALGORITHM
        assert "class Model" in store.problems.get(session.problem_hash).source
        (first,) = store.candidates.of_session(session.session_id)
        assert store.candidates.source_of(first) == "class ModelNew: ...\n"
        verdict = store.verdicts.latest(session.session_id, first.number, samples=True)
        assert verdict is not None
        assert verdict.timing is not None
        assert verdict.timing.samples_ms == {"candidate": ((0.5, 0.25),)}
        (job,) = store.jobs.of_session(session.session_id)
        assert (job.status, store.jobs.log(job.job_id).text) == (JobStatus.DONE, "one\ntwo\n")
        assert store.artifacts.get(session.session_id, first.number, "ptx") == "// ptx\n"
        second, created = store.candidates.add(
            session.session_id, Stage.TUNE_TILING, "new", first.number, "", ()
        )
        assert (second.number, created) == (2, True)


def test_migrated_file_has_the_tables_of_a_new_one(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    with closing(sqlite3.connect(tmp_path / "egg.sqlite3", isolation_level=None)) as old:
        old.executescript(V1.read_text(encoding="utf-8"))
        migrate(old, tmp_path)
        migrate(connection, Path("new"))
        assert _tables(old) == _tables(connection)


@pytest.mark.parametrize(
    ("file", "answer"),
    [
        ("/egg/state/egg.sqlite3", False),
        ("/egg/shared/egg.sqlite3", True),
        ("/egg/shared/local/egg.sqlite3", False),
        ("/egg/sharedness/egg.sqlite3", False),
    ],
)
def test_write_ahead_log_is_not_used_where_another_machine_may_write(
    file: str, *, answer: bool
) -> None:
    mounts = (
        "overlay / overlay rw 0 0\n"
        "host:/x /egg/shared nfs4 rw 0 0\n"
        "/dev/sda1 /egg/shared/local ext4 rw 0 0\n"
    )
    assert is_on_network(Path(file), mounts) is answer
    assert is_on_network(Path(file), "") is False
