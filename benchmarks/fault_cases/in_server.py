"""Faults of the server and of its client, over standard input and output (Linux)."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import NOTHING, Case, Outcome, unsaid_step
from benchmarks.fault_cases.client import StdioClient
from benchmarks.fault_cases.sources import HONEST, SUM, candidate

_SLOW = candidate(forward="time.sleep(0.2)")
_HANG = candidate(forward="time.sleep(1000)")
End = Callable[[StdioClient], None]


def _kill(client: StdioClient) -> None:
    client.process.send_signal(signal.SIGKILL)
    client.process.wait()


def _terminate(client: StdioClient) -> None:
    client.process.send_signal(signal.SIGTERM)
    client.process.wait()


def _close_input(client: StdioClient) -> None:
    client.close_input()
    client.process.wait()


async def _server_ends(bench: Bench, end: End) -> Outcome:
    """The server ends in the middle of a job; another one on the same state goes on."""
    return await anyio.to_thread.run_sync(partial(_ends, bench.folder, end))


def _ends(folder: Path, end: End) -> Outcome:
    with tempfile.TemporaryDirectory(dir=folder) as state:
        with StdioClient.open(Path(state), folder) as first:
            session_id, judged = _judged_session(first)
            job_id = first.call(
                "design_algorithm", session_id=session_id, kernel_code=_HANG, wait_s=0
            )["job_id"]
            end(first)
        with StdioClient.open(Path(state), folder) as second:
            job = second.call("get_job", job_id=job_id, wait_s=0)
            kept = second.call("session_status", session_id=session_id)["candidates"]
            lost = NOTHING if kept[0]["verdict"] == judged else f"the first verdict: {kept[0]}"
            again = second.finish("design_algorithm", session_id=session_id, kernel_code=_SLOW)
            return _outcome(job, again, lost)


async def _cancel(bench: Bench) -> Outcome:
    """A job is cancelled by its caller."""
    return await anyio.to_thread.run_sync(partial(_cancelled, bench.folder))


def _cancelled(folder: Path) -> Outcome:
    with (
        tempfile.TemporaryDirectory(dir=folder) as state,
        StdioClient.open(Path(state), folder) as client,
    ):
        session_id, _ = _judged_session(client)
        started = client.call(
            "design_algorithm", session_id=session_id, kernel_code=_HANG, wait_s=0
        )
        job = client.call("cancel_job", job_id=started["job_id"])
        again = client.finish("design_algorithm", session_id=session_id, kernel_code=_SLOW)
        return _outcome(job, again, NOTHING)


async def _crash_told(bench: Bench) -> Outcome:
    """A candidate's fault as a tool tells it."""
    return await anyio.to_thread.run_sync(partial(_told, bench.folder))


def _told(folder: Path) -> Outcome:
    with (
        tempfile.TemporaryDirectory(dir=folder) as state,
        StdioClient.open(Path(state), folder) as client,
    ):
        session_id, _ = _judged_session(client)
        crash = candidate(forward="os._exit(1)")
        job = client.finish("design_algorithm", session_id=session_id, kernel_code=crash)
        again = client.finish("design_algorithm", session_id=session_id, kernel_code=_SLOW)
        return _outcome(
            {**job, "fault": job["verdict"]["fault"], "status": job["verdict"]["status"]},
            again,
            NOTHING,
        )


def _judged_session(client: StdioClient) -> tuple[str, str]:
    session_id = client.finish("design_algorithm", reference_code=SUM.source)["session_id"]
    right = client.finish("design_algorithm", session_id=session_id, kernel_code=HONEST)
    return session_id, right["verdict"]["status"]


def _outcome(job: dict[str, Any], again: dict[str, Any], lost: str) -> Outcome:
    got, text = f"{job['status']}/{job.get('fault') or '-'}", job["summary"]
    passed = again["verdict"]["status"] in ("pass", "emulated_pass")
    return Outcome(got, text, passed, lost, unsaid_step(got, text))


CASES = (
    Case("server-killed", "interrupted/server_died", partial(_server_ends, end=_kill)),
    Case("server-terminated", "interrupted/server_died", partial(_server_ends, end=_terminate)),
    Case("client-gone", "interrupted/server_died", partial(_server_ends, end=_close_input)),
    Case("job-cancelled", "cancelled/cancelled", _cancel),
    Case("crash-told-by-a-tool", "crashed/ended_itself", _crash_told),
)
