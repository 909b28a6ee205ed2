"""Killed servers, full disks, folders that cannot be written, files that are not ours."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from egg_mcp.errors import StateError, StateFull, StateTooNew, StateUnwritable
from egg_mcp.store import Store
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.stage import Stage

ADD_FOR_EVER = """
import itertools, sys
from pathlib import Path
from egg_mcp.store import Store
from egg_mcp.vocabulary.stage import Stage
store = Store.open(Path(sys.argv[1]))
for each in itertools.count():
    source = f"# from {sys.argv[2]}: {each}" + "x" * 5000
    candidate, _ = store.candidates.add("one", Stage.TUNE_TILING, source, None, "", ())
    print(candidate.number, candidate.kernel_hash, flush=True)
"""

OPEN_AS_NOBODY = """
import os, sys
from pathlib import Path
from egg_mcp.errors import StateError
from egg_mcp.store import Store
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    Store.open(Path(sys.argv[1])).close()
    print("opened")
except StateError as error:
    print(type(error).__name__, error)
"""


def _run(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def _kill_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """Read so many lines, kill the process, and read what it still got out."""
    assert process.stdout is not None
    with process:
        read = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        return [line for line in (*read, *process.stdout) if line.endswith("\n")]


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_everything_acknowledged_before_kill_9_is_there_after_it(
    store: Store, state_dir: Path, lines: int
) -> None:
    store.close()
    acknowledged = _kill_after(_run(ADD_FOR_EVER, str(state_dir), "a"), lines)
    assert len(acknowledged) >= lines
    with Store.open(state_dir) as reopened:
        assert reopened.connection.rows("PRAGMA integrity_check") == [("ok",)]
        for line in acknowledged:
            number, kernel_hash = line.split()
            candidate = reopened.candidates.get("one", int(number))
            assert candidate is not None
            assert candidate.kernel_hash == kernel_hash
            assert content_hash(reopened.candidates.source_of(candidate)) == kernel_hash


def test_two_servers_write_one_file_and_the_death_of_one_does_not_stop_the_other(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int]
) -> None:
    first, second = (_run(ADD_FOR_EVER, str(state_dir), name) for name in "ab")
    acknowledged = _kill_after(first, 10) + _kill_after(second, 20)
    numbers = [int(line.split()[0]) for line in acknowledged]
    assert len(set(numbers)) == len(numbers)
    last = add_candidate("mine")
    assert last > max(numbers)
    listed = store.candidates.of_session("one")
    assert [candidate.number for candidate in listed] == list(range(1, last + 1))


def test_many_threads_may_open_a_new_file_at_once(state_dir: Path) -> None:
    def put(number: int) -> str:
        with Store.open(state_dir) as store:
            return store.sources.put(f"{number}")

    with ThreadPoolExecutor(8) as pool:
        hashes = list(pool.map(put, range(24)))
    with Store.open(state_dir) as store:
        assert [store.sources.get(each) for each in hashes] == [f"{n}" for n in range(24)]


def test_one_store_may_be_used_by_many_threads(store: Store) -> None:
    def add(number: int) -> int:
        candidate, _ = store.candidates.add("one", Stage.TUNE_TILING, f"{number}", None, "", ())
        assert candidate in store.candidates.of_session("one")
        return candidate.number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(64))) == list(range(1, 65))
    assert [each.number for each in store.candidates.of_session("one")] == list(range(1, 65))


def test_full_disk_keeps_nothing_of_the_write_and_all_that_was_before(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int]
) -> None:
    add_candidate("a")
    (pages,) = store.connection.rows("PRAGMA page_count")
    store.connection.rows(f"PRAGMA max_page_count = {pages[0] + 2}")
    big = "x" * 1_000_000
    with pytest.raises(StateFull, match="no space is left"):
        add_candidate(big)

    def put_both() -> None:
        with store.transaction():
            store.sources.put("small")
            store.sources.put(big)

    with pytest.raises(StateFull):
        put_both()
    assert [each.number for each in store.candidates.of_session("one")] == [1]
    with pytest.raises(StateError):
        store.sources.get(content_hash("small"))
    store.connection.rows("PRAGMA max_page_count = 1000000")
    assert add_candidate(big) == 2
    with Store.open(state_dir) as reopened:
        assert reopened.connection.rows("PRAGMA integrity_check") == [("ok",)]
        assert len(reopened.candidates.of_session("one")) == 2


def _unusable(tmp_path: Path, case: str) -> Path:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    (tmp_path / "state" / "egg.sqlite3").mkdir(parents=True)
    return {
        "the folder is a file": file,
        "its parent is a file": file / "state",
        "the file is a folder": tmp_path / "state",
        "no folder can be made there": Path("/proc/egg-mcp/state"),
        "its name is too long": tmp_path / ("x" * 300),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "the folder is a file",
        "its parent is a file",
        "the file is a folder",
        "no folder can be made there",
        "its name is too long",
    ],
)
def test_place_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path, case: str) -> None:
    state_dir = _unusable(tmp_path, case)
    with pytest.raises(StateUnwritable) as raised:
        Store.open(state_dir)
    assert str(state_dir) in str(raised.value)
    assert "pass --state-dir DIR or set EGG_STATE_DIR" in str(raised.value)


@pytest.mark.parametrize("mode_of_folder", [0o755, 0o777])
def test_file_that_may_only_be_read_is_unwritable(mode_of_folder: int) -> None:
    # Not in tmp_path: nobody but this user may look into that.
    with tempfile.TemporaryDirectory() as folder:
        state_dir = Path(folder)
        Store.open(state_dir).close()
        (state_dir / "egg.sqlite3").chmod(0o444)
        state_dir.chmod(mode_of_folder if os.geteuid() == 0 else mode_of_folder & 0o555)
        with _run(OPEN_AS_NOBODY, folder) as process:
            said, _ = process.communicate()
        state_dir.chmod(0o755)
    assert said.startswith("StateUnwritable"), said
    assert folder in said


@pytest.mark.parametrize("content", [b"not a database, but long enough to have a header " * 50])
def test_file_of_another_kind_is_damaged_and_left_alone(state_dir: Path, content: bytes) -> None:
    state_dir.mkdir()
    file = state_dir / "egg.sqlite3"
    file.write_bytes(content)
    with pytest.raises(StateError, match="move it away") as raised:
        Store.open(state_dir)
    assert str(file) in str(raised.value)
    assert file.read_bytes() == content


def test_damage_inside_the_file_is_a_state_error_when_it_is_met(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int]
) -> None:
    for number in range(200):
        add_candidate(f"{number}" + "x" * 2000)
    store.close()
    file = state_dir / "egg.sqlite3"
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(StateError, match="damaged"), Store.open(state_dir) as reopened:
        reopened.candidates.of_session("one")


def test_file_of_another_program_is_refused_and_left_alone(state_dir: Path) -> None:
    state_dir.mkdir()
    with sqlite3.connect(state_dir / "egg.sqlite3") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StateError, match="another program"):
        Store.open(state_dir)


def test_state_of_a_newer_release_is_refused_and_left_alone(state_dir: Path) -> None:
    Store.open(state_dir).close()
    connection = sqlite3.connect(state_dir / "egg.sqlite3")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (state_dir / "egg.sqlite3").read_bytes()
    with pytest.raises(StateTooNew, match=r"version 99.*up to 1\b.*Upgrade egg-mcp"):
        Store.open(state_dir)
    assert (state_dir / "egg.sqlite3").read_bytes() == before
