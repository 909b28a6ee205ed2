"""How the server ends, and that nothing outlives it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from egg_mcp.store import Store
from egg_mcp.vocabulary.job import JobStatus
from tests.protocol.real_server import (
    END_S,
    RealServer,
    descendants,
    gate_of,
    gated,
    left_behind,
    real_server,
    source,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HANGS_WITH_A_CHILD = (
    source("candidates", "hangs")
    .replace("import torch\n", "import subprocess\n\nimport torch\n", 1)
    .replace(
        "        while True:\n",
        '        subprocess.Popen(["sleep", "1000"])\n        while True:\n',
    )
)


def end(server: RealServer, how: str) -> int:
    """End the server in that way; returns its exit code."""
    if how == "EOF":
        server.close_input()
    else:
        server.process.send_signal(getattr(signal, how))
    return server.process.wait(timeout=END_S)


def status_on_disk(state: Path, job_id: str) -> JobStatus:
    store = Store.open(state)
    try:
        job = store.jobs.get(job_id)
    finally:
        store.close()
    assert job is not None
    return job.status


@pytest.mark.parametrize(
    ("how", "exit_code", "status"),
    [
        ("EOF", 0, JobStatus.INTERRUPTED),
        # Without a farewell: the next server on this state sees that this one is gone.
        ("SIGTERM", 143, JobStatus.RUNNING),
        ("SIGINT", 130, JobStatus.RUNNING),
        ("SIGKILL", -9, JobStatus.RUNNING),
    ],
)
def test_no_process_outlives_the_server_while_a_kernel_hangs(
    tmp_path: Path, how: str, exit_code: int, status: JobStatus
) -> None:
    state = tmp_path / "state"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with real_server(state, tmp_path, TMPDIR=str(temporary)) as server:
        job_id = server.start_job(server.open_session(), HANGS_WITH_A_CHILD)
        assert len(descendants(server.mark)) >= 4, "server, referee, candidate and its child run"
        assert len(list(temporary.glob("egg-zygote-*"))) == 1

        assert end(server, how) == exit_code

        assert left_behind(server.mark) == []
    assert status_on_disk(state, job_id) is status
    kept = [entry.name for entry in temporary.iterdir() if "locks" not in entry.name]
    assert kept == []


def test_a_client_that_stops_reading_ends_the_server_and_its_workers(tmp_path: Path) -> None:
    with real_server(tmp_path / "state", tmp_path) as server:
        server.open_session()
        assert len(descendants(server.mark)) >= 2, "a warm referee runs"
        server.stop_reading()

        server.start("tools/list", {})

        server.process.wait(timeout=END_S)
        assert left_behind(server.mark) == []


def test_a_killed_server_loses_nothing_and_its_work_can_be_asked_for_again(tmp_path: Path) -> None:
    state, gate = tmp_path / "state", gate_of(tmp_path)
    with real_server(state, tmp_path) as server:
        session_id = server.open_session()
        right = server.facts(
            "design_algorithm",
            session_id=session_id,
            kernel_code=source("candidates", "add_right"),
        )
        assert right["verdict"]["status"] == "emulated_pass"
        job_id = server.start_job(session_id, gated(gate))
        end(server, "SIGKILL")
    gate.touch()

    with real_server(state, tmp_path) as server:
        job = server.report("get_job", job_id=job_id, wait_s=0)
        assert job["status"] == "interrupted"
        status = server.report("session_status", session_id=session_id)
        verdicts = [(line["candidate"], line["verdict"]) for line in status["candidates"]]
        assert verdicts == [(1, "emulated_pass"), (2, "not judged yet")]
        kept = server.report("export_kernel", session_id=session_id)
        assert source("candidates", "add_right").strip() in kept["code"]

        again = server.facts("design_algorithm", session_id=session_id, kernel_code=gated(gate))

        assert again["job_id"] != job_id
        assert again["candidate"] == 2
        assert again["verdict"]["status"] == "emulated_pass"


def test_two_servers_share_one_state_and_leave_each_other_alone(tmp_path: Path) -> None:
    state, gate = tmp_path / "state", gate_of(tmp_path)
    with real_server(state, tmp_path) as first:
        session_id = first.open_session()
        job_id = first.start_job(session_id, gated(gate))
        # Only now: a server that starts must not take a neighbour's running job for a lost one.
        with real_server(state, tmp_path) as second:
            assert second.report("session_status", session_id=session_id)["total"] == 1
            seen = second.report("get_job", job_id=job_id, wait_s=0)
            assert seen["status"] == "running"
            assert "another server" in seen["summary"]
            refused = second.report("cancel_job", job_id=job_id)
            assert refused["status"] == "running"
            assert "another server" in refused["warnings"][0]

            gate.touch()

            assert second.facts("get_job", job_id=job_id)["verdict"]["status"] == "emulated_pass"
            assert first.facts("get_job", job_id=job_id)["status"] == "done"
            right = source("candidates", "add_right")
            judged = second.facts("design_algorithm", session_id=session_id, kernel_code=right)
            assert judged["verdict"]["status"] == "emulated_pass"
        assert first.report("session_status", session_id=session_id)["total"] == 2
        assert (
            first.facts("design_algorithm", session_id=session_id, kernel_code=right)["job_id"]
            == judged["job_id"]
        )
