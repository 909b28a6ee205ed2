"""Work that takes longer than a call: waiting, giving up, cancelling, restarting."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest

from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.testing import FakeExecutor
from tests.tools.desk import Desk, Era, call_in, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio

SLOW = kernel(1.5, "WAIT")


async def _started(desk: Desk) -> tuple[str, str]:
    """A session and a job in it that runs until the executor is released."""
    session_id = await desk.open()
    running = await desk.submit(session_id, SLOW, wait_s=0)
    assert running["status"] == "running"
    assert running["candidate"] == 1
    return session_id, str(running["job_id"])


@in_both_eras
async def test_no_wait_returns_a_job_that_get_job_finishes(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        running = await desk.submit(session_id, SLOW, wait_s=0)
        assert call_in(running["next_step"]) == ("get_job", {"job_id": running["job_id"]})
        assert running["job_id"] in running["summary"]
        peeked = await desk.call("get_job", job_id=running["job_id"], wait_s=0)
        assert peeked["status"] == "running"
        assert (await desk.submit(session_id, SLOW, wait_s=0))["job_id"] == running["job_id"]
        desk.executor.released.set()
        done = await desk.call("get_job", job_id=running["job_id"])
        assert (done["status"], done["champion"]) == ("done", 1)
        assert done == await desk.submit(session_id, SLOW)
        assert len(desk.executor.evaluations) == 1


@in_both_eras
async def test_progress_of_a_waiting_call_strictly_increases_and_says_what_is_done(
    era: Era, tmp_path: Path
) -> None:
    beats: list[float] = []
    said: list[str | None] = []
    async with open_desk(tmp_path, era) as desk:
        _, job_id = await _started(desk)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            del total
            beats.append(progress)
            said.append(message)
            if len(beats) == 2:
                desk.executor.released.set()

        result = await desk.client.call_tool(
            "get_job", {"job_id": job_id, "wait_s": 50}, progress_callback=on_progress
        )
        assert (result.structured_content or {})["status"] == "done"
    assert len(beats) >= 2
    assert all(later > earlier for earlier, later in itertools.pairwise(beats))
    assert said[0] == "trial 1 of 1"


@in_both_eras
async def test_client_that_gives_up_waiting_leaves_the_job_running(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        _, job_id = await _started(desk)
        waits = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            del progress, total, message
            waits.set()

        async def wait() -> None:
            await desk.client.call_tool(
                "get_job", {"job_id": job_id, "wait_s": 50}, progress_callback=on_progress
            )

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await waits.wait()
            group.cancel_scope.cancel()
        running = await desk.call("get_job", job_id=job_id, wait_s=0)
        assert running["status"] == "running"
        desk.executor.released.set()
        assert (await desk.call("get_job", job_id=job_id))["verdict"]["status"] == "pass"


@in_both_eras
async def test_cancelled_job_keeps_its_candidate_and_runs_afresh(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id, job_id = await _started(desk)
        cancelled = await desk.call("cancel_job", job_id=job_id)
        assert (cancelled["status"], cancelled["warnings"]) == ("cancelled", [])
        assert "Candidate 1" in cancelled["summary"]
        late = await desk.call("cancel_job", job_id=job_id)
        assert late["status"] == "cancelled"
        desk.executor.released.set()
        again = await desk.submit(session_id, SLOW)
        assert again["candidate"] == 1
        assert again["job_id"] != job_id
        assert again["verdict"]["status"] == "pass"
        done = await desk.call("cancel_job", job_id=again["job_id"])
        assert done["status"] == "done"
        assert done["warnings"] == ["it had ended already: done"]


async def test_unknown_ids_are_answered_with_where_to_look(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        for tool in ("get_job", "cancel_job"):
            assert "session_status" in await desk.refused(tool, job_id=session_id)
        refusal = await desk.refused("session_status", session_id="0" * 32)
        assert "session_status() lists the known ones" in refusal
        for tool in ("export_kernel", "verify_and_benchmark"):
            refusal = await desk.refused(tool, session_id=session_id, candidate=3)
            assert "it has none yet" in refusal


@in_both_eras
async def test_another_server_goes_on_with_nothing_but_the_session_id(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        first = await desk.submit(session_id, kernel(1.5), rationale="one pass")
        before = await desk.call("session_status", session_id=session_id)
    async with open_desk(tmp_path, era) as desk:
        assert await desk.call("session_status", session_id=session_id) == before
        assert (await desk.call("get_job", job_id=first["job_id"])) == first
        assert (await desk.submit(session_id, kernel(1.5)))["job_id"] == first["job_id"]
        assert desk.executor.evaluations == []
        tuned = await desk.call(
            "tune_tiling", session_id=session_id, kernel_code=kernel(2.0), parent=1
        )
        assert (tuned["candidate"], tuned["champion"]) == (2, 2)
        assert await desk.open() == session_id


@in_both_eras
async def test_job_that_ran_at_shutdown_is_interrupted_and_runs_again(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id, job_id = await _started(desk)
    async with open_desk(tmp_path, era) as desk:
        found = await desk.call("get_job", job_id=job_id)
        assert found["status"] == "interrupted"
        assert "Candidate 1" in found["summary"]
        assert found["next_step"].startswith("design_algorithm(")
        status = await desk.call("session_status", session_id=session_id)
        assert status["candidates"][0]["verdict"] == "not judged yet"
        desk.executor.released.set()
        again = await desk.submit(session_id, SLOW)
        assert (again["candidate"], again["status"]) == (1, "done")
        assert again["job_id"] != job_id


@in_both_eras
async def test_bug_in_a_job_fails_that_job_alone(era: Era, tmp_path: Path) -> None:
    class Broken(FakeExecutor):
        async def evaluate(self, *args: Any, **kwargs: Any) -> Evaluation:
            if "BUG" in str(args):
                raise KeyError("half a pair \ud800")
            return await super().evaluate(*args, **kwargs)

    async with open_desk(tmp_path, era, Broken()) as desk:
        session_id = await desk.open()
        failed = await desk.submit(session_id, kernel(1.5, "BUG"))
        assert failed["status"] == "failed"
        assert "internal error: KeyError" in failed["summary"]
        assert "not the candidate" in failed["summary"]
        assert failed["champion"] is None
        assert (await desk.submit(session_id, kernel(1.5)))["champion"] == 2
