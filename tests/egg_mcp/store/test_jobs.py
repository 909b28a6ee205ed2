"""Jobs, their logs, and the servers that own them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egg_mcp.errors import StateError, StateUnwritable, UnknownJob
from egg_mcp.store import Owner, Store, is_alive
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.verdict import Verdict

HOLD_A_LOCK = """
import sys
from pathlib import Path
from egg_mcp.store import Owner
owner = Owner.open(Path(sys.argv[1]))
print(owner.owner_id, flush=True)
sys.stdin.read()
"""


def _done(running: Job, **more: object) -> Job:
    return running.model_copy(update={"status": JobStatus.DONE, "finished_at": "later", **more})


def test_job_comes_back_with_samples_only_when_asked(
    store: Store, timed_verdict: Verdict, new_job: Callable[..., Job]
) -> None:
    store.jobs.add(new_job("j1"), "me")
    assert store.jobs.get("j1") == new_job("j1")
    finished = _done(new_job("j1"), verdict=timed_verdict)
    assert store.jobs.update(finished) == finished
    assert store.jobs.get("j1", samples=True) == finished
    bare = store.jobs.get("j1")
    assert bare is not None
    assert bare.verdict is not None
    assert bare.verdict.timing is not None
    assert bare.verdict.timing.samples_ms == {}


def test_unknown_job_is_none_and_cannot_be_updated(
    store: Store, new_job: Callable[..., Job]
) -> None:
    assert store.jobs.get("j1") is None
    with pytest.raises(UnknownJob, match="'j1'"):
        store.jobs.update(new_job("j1"))


def test_job_id_is_given_once(store: Store, new_job: Callable[..., Job]) -> None:
    store.jobs.add(new_job("j1"), "me")
    with pytest.raises(StateError, match="UNIQUE"):
        store.jobs.add(new_job("j1"), "me")


def test_newest_job_of_a_key_is_found(store: Store, new_job: Callable[..., Job]) -> None:
    for job_id in ("j1", "j2"):
        store.jobs.add(new_job(job_id, key="same"), "me")
    store.jobs.add(new_job("j3", key="other"), "me")
    assert store.jobs.by_key("same") == new_job("j2", key="same")
    assert store.jobs.by_key("none") is None


def test_finished_job_is_never_changed_again(store: Store, new_job: Callable[..., Job]) -> None:
    store.jobs.add(new_job("j1"), "me")
    cancelled = new_job("j1").model_copy(update={"status": JobStatus.CANCELLED})
    store.jobs.update(cancelled)
    assert store.jobs.update(_done(new_job("j1"))) == cancelled
    assert store.jobs.update(new_job("j1")) == cancelled
    assert store.jobs.get("j1") == cancelled


def test_jobs_are_listed_by_owner_and_by_session(store: Store, new_job: Callable[..., Job]) -> None:
    store.jobs.add(new_job("j1", session_id="one"), "me")
    store.jobs.add(new_job("j2"), "you")
    store.jobs.add(new_job("j3", session_id="one"), "me")
    store.jobs.update(_done(new_job("j3", session_id="one")))
    assert [each.job_id for each in store.jobs.running()] == ["j1", "j2"]
    assert [each.job_id for each in store.jobs.running("me")] == ["j1"]
    assert [each.job_id for each in store.jobs.of_session("one")] == ["j1", "j3"]


def test_log_is_read_in_pages_over_the_borders_of_its_pieces(
    store: Store, new_job: Callable[..., Job]
) -> None:
    store.jobs.add(new_job("j1"), "me")
    whole = "é1\n" + "half \udc80 a pair\n" + "\x00 nul"
    for piece in ("é1\n", "", "half \udc80 a pair\n", "\x00 nul"):
        store.jobs.append_log("j1", piece)
    for limit in range(1, len(whole) + 2):
        text, offset = "", 0
        while True:
            page = store.jobs.log("j1", offset, limit)
            assert page.total == len(whole)
            assert len(page.text) <= limit
            text += page.text
            if page.next_offset is None:
                break
            offset = page.next_offset
        assert text == whole


@pytest.mark.parametrize("offset", [5, 6, 10**30])
def test_log_past_its_end_is_empty(store: Store, offset: int, new_job: Callable[..., Job]) -> None:
    store.jobs.add(new_job("j1"), "me")
    store.jobs.append_log("j1", "12345")
    page = store.jobs.log("j1", offset, 10)
    assert (page.text, page.offset, page.total, page.next_offset) == ("", 5, 5, None)
    assert store.jobs.log("j1", -3, 2).text == "12"
    assert store.jobs.log("j1", 0, 10**30).text == "12345"
    assert store.jobs.log("none").total == 0


def test_log_of_no_job_is_refused(store: Store) -> None:
    with pytest.raises(StateError, match="FOREIGN KEY"):
        store.jobs.append_log("j1", "text")


@pytest.fixture
def other_server(state_dir: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Another server process and its owner id."""
    command = [sys.executable, "-c", HOLD_A_LOCK, str(state_dir)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.kill()


def test_jobs_of_a_killed_server_are_interrupted_and_those_of_a_live_one_are_not(
    store: Store,
    state_dir: Path,
    other_server: tuple[str, subprocess.Popen[str]],
    new_job: Callable[..., Job],
) -> None:
    owner_id, process = other_server
    with Owner.open(state_dir) as mine:
        store.jobs.add(new_job("theirs"), owner_id)
        store.jobs.add(new_job("their finished one"), owner_id)
        store.jobs.update(_done(new_job("their finished one")))
        store.jobs.add(new_job("mine"), mine.owner_id)
        assert store.jobs.interrupt_orphans(lambda owner: is_alive(state_dir, owner)) == ()
        process.send_signal(signal.SIGKILL)
        process.wait()
        (ended,) = store.jobs.interrupt_orphans(lambda owner: is_alive(state_dir, owner))
        assert (ended.job_id, ended.status) == ("theirs", JobStatus.INTERRUPTED)
        assert ended.finished_at is not None
        assert ended == store.jobs.get("theirs")
        assert store.jobs.running() == (new_job("mine"),)
        assert store.jobs.interrupt_orphans(lambda owner: is_alive(state_dir, owner)) == ()


def test_owner_is_alive_until_it_closes(state_dir: Path) -> None:
    with Owner.open(state_dir) as owner:
        assert is_alive(state_dir, owner.owner_id)
        assert is_alive(state_dir, owner.owner_id)
    assert not is_alive(state_dir, owner.owner_id)
    assert not is_alive(state_dir, "never seen")
    owner.close()


def test_marks_of_killed_servers_are_swept_away_and_live_ones_stay(
    state_dir: Path, other_server: tuple[str, subprocess.Popen[str]]
) -> None:
    owner_id, process = other_server
    marks = state_dir / "servers"
    with Owner.open(state_dir) as mine:
        assert {mark.stem for mark in marks.iterdir()} == {owner_id, mine.owner_id}
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Owner.open(state_dir) as third:
            assert {mark.stem for mark in marks.iterdir()} == {mine.owner_id, third.owner_id}


def test_lock_does_not_pass_to_a_child_that_outlives_its_server(state_dir: Path) -> None:
    read_end, write_end = os.pipe()
    try:
        owner = Owner.open(state_dir)
        # The child keeps only what may be inherited, then waits for the pipe to close.
        with subprocess.Popen(
            [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
            stdin=read_end,
            stdout=subprocess.PIPE,
            close_fds=False,
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            mark = state_dir / "servers" / f"{owner.owner_id}.lock"
            mark.rename(mark.with_name("other.lock"))
            owner.close()
            assert not is_alive(state_dir, "other")
            os.close(write_end)
            write_end = -1
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def test_owner_in_an_unusable_folder_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StateUnwritable, match="--state-dir DIR or set EGG_STATE_DIR"):
        Owner.open(tmp_path / "file")
