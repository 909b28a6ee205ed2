"""How the server ends, and that nothing outlives it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.protocol.real_server import RealServer, real_server, source, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MOST_LOOKS = 2_000


def wait_until_gone(pids: list[int]) -> list[int]:
    """Wait for these processes to end, a bounded number of looks; returns those that did not."""
    left = pids
    for _ in range(MOST_LOOKS):
        left = [pid for pid in left if _is_alive(pid)]
        if not left:
            break
        # Yields the processor; the kernel needs a moment to reap what was killed.
        os.sched_yield()
        _ = Path("/proc/loadavg").read_text(encoding="ascii")
    return left


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def end(server: RealServer, how: str) -> int:
    """End the server in that way; returns its exit code."""
    if how == "EOF":
        assert server.process.stdin is not None
        server.process.stdin.close()
    else:
        server.process.send_signal(getattr(signal, how))
    return server.process.wait(timeout=30)


@pytest.mark.parametrize(
    ("how", "exit_code"), [("EOF", 0), ("SIGTERM", 143), ("SIGINT", 130), ("SIGKILL", -9)]
)
def test_no_process_outlives_the_server_while_a_kernel_hangs(
    tmp_path: Path, how: str, exit_code: int
) -> None:
    with real_server(tmp_path / "state", tmp_path) as server:
        server.start_hanging_job(server.open_session())
        workers = workers_of(server.process.pid)
        assert len(workers) >= 2, "a referee and a candidate run"

        assert end(server, how) == exit_code
        assert wait_until_gone(workers) == []
        assert workers_of(server.process.pid) == []


def test_a_killed_server_loses_nothing_and_its_job_comes_back_interrupted(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with real_server(state, tmp_path) as server:
        session_id = server.open_session()
        right = server.facts(
            "design_algorithm",
            session_id=session_id,
            kernel_code=source("candidates", "add_right"),
            rationale="the first",
        )
        assert right["verdict"]["status"] == "emulated_pass"
        job_id = server.start_hanging_job(session_id)
        end(server, "SIGKILL")

    with real_server(state, tmp_path) as server:
        job = server.tool("get_job", job_id=job_id, wait_s=0)["structuredContent"]
        assert job["status"] == "interrupted"
        status = server.facts("session_status", session_id=session_id)
        verdicts = [(line["candidate"], line["verdict"]) for line in status["candidates"]]
        assert verdicts == [(1, "emulated_pass"), (2, "not judged yet")]
        # The interrupted submission again: the same candidate, a job of its own.
        again = server.tool(
            "design_algorithm",
            session_id=session_id,
            kernel_code=source("candidates", "hangs"),
            wait_s=0,
        )["structuredContent"]
        assert (again["status"], again["candidate"]) == ("running", 2)
        assert again["job_id"] != job_id
        cancelled = server.tool("cancel_job", job_id=again["job_id"])["structuredContent"]
        assert cancelled["status"] == "cancelled"
        final = server.facts("verify_and_benchmark", session_id=session_id)
        assert final["verdict"]["status"] == "emulated_pass"


def test_two_servers_share_one_state_and_leave_each_other_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with (
        real_server(state, tmp_path) as first,
        real_server(state, tmp_path, EGG_FIRST_CALL_DEADLINE_S="10") as second,
    ):
        session_id = first.open_session()
        job_id = first.start_hanging_job(session_id)
        assert second.facts("session_status", session_id=session_id)["total"] == 1
        seen = second.tool("get_job", job_id=job_id, wait_s=0)["structuredContent"]
        assert seen["status"] == "running"

        first.tool("cancel_job", job_id=job_id)

        seen = second.tool("get_job", job_id=job_id, wait_s=20)["structuredContent"]
        assert seen["status"] == "cancelled"
        verdict = second.facts(
            "design_algorithm",
            session_id=session_id,
            kernel_code=source("candidates", "add_right"),
        )["verdict"]
        assert verdict["status"] == "emulated_pass"
        assert first.facts("session_status", session_id=session_id)["total"] == 2
