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

_SLOW = candidate(forward="if self.calls == 1:\n    time.sleep(1.5)")
_HANG = candidate(forward="time.sleep(1000)")
_MOST_LOOKS = 200
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


async def _server_ends(bench: Bench, end: End, repeat: bool = False) -> Outcome:
    """The server ends while a kernel runs; another one on the same state goes on.

    Args:
        bench: where.
        end: ends it.
        repeat: make the same call again there, and run it to its end.
    """
    return await anyio.to_thread.run_sync(partial(_ends, bench, end, repeat))


def _ends(bench: Bench, end: End, repeat: bool) -> Outcome:
    with tempfile.TemporaryDirectory(dir=bench.folder) as state:
        with StdioClient.open(Path(state), bench.folder, **bench.environment()) as first:
            session_id, judged = _judged_session(first)
            job_id = _running(first, session_id, _SLOW)
            end(first)
        with StdioClient.open(Path(state), bench.folder, **bench.environment()) as second:
            job = second.call("get_job", job_id=job_id, wait_s=0)
            kept = second.call("session_status", session_id=session_id)["candidates"]
            found = [(line["candidate"], line["verdict"]) for line in kept]
            whole = [(1, judged), (2, "not judged yet")]
            lost = NOTHING if found == whole else f"of {whole} there is {found}"
            if repeat:
                again = second.finish("design_algorithm", session_id=session_id, kernel_code=_SLOW)
                return seen(job, again, lost)
    return seen(job, honest(bench.server(), end.__name__), lost)


def _running(client: StdioClient, session_id: str, kernel: str) -> str:
    """Hand in a kernel; its job, once the kernel is called."""
    job = client.call("design_algorithm", session_id=session_id, kernel_code=kernel, wait_s=0)
    for _ in range(_MOST_LOOKS):
        if "trial" in job["summary"] or job["status"] != "running":
            break
        job = client.call("get_job", job_id=job["job_id"], wait_s=0.1)
    return str(job["job_id"])


async def _cancel(bench: Bench) -> Outcome:
    """A job is cancelled by its caller."""
    return await anyio.to_thread.run_sync(partial(_cancelled, bench))


def _cancelled(bench: Bench) -> Outcome:
    client = bench.server()
    session_id, _ = _judged_session(client)
    job = client.call("cancel_job", job_id=_running(client, session_id, _HANG))
    return seen(job, honest(client, "a cancelled job"))


def honest(client: StdioClient, after: str) -> dict[str, Any]:
    """What is reported of an honest candidate that has not been judged before.

    Args:
        client: of which server.
        after: makes it another source.
    """
    session_id = client.finish("design_algorithm", reference_code=SUM.source)["session_id"]
    kernel = f"{HONEST}# after {after}\n"
    return client.finish("design_algorithm", session_id=session_id, kernel_code=kernel)


def _judged_session(client: StdioClient) -> tuple[str, str]:
    session_id = client.finish("design_algorithm", reference_code=SUM.source)["session_id"]
    right = client.finish("design_algorithm", session_id=session_id, kernel_code=HONEST)
    return session_id, right["verdict"]["status"]


def seen(job: dict[str, Any], again: dict[str, Any], lost: str = NOTHING) -> Outcome:
    """What two reports of tools show.

    Args:
        job: of the fault.
        again: of the honest candidate after it.
        lost: what is gone.
    """
    ended: dict[str, Any] = job.get("verdict") or job
    after: dict[str, Any] = again.get("verdict") or again
    got, text = f"{ended['status']}/{ended['fault'] or '-'}", job["summary"]
    passed = after["status"] in ("pass", "emulated_pass")
    wrong = unsaid_step(got, text) or ("" if job["next_step"] else "no next call is named")
    return Outcome(got, text, passed, lost, wrong)


CASES = (
    Case("server-killed", "interrupted/server_died", partial(_server_ends, end=_kill, repeat=True)),
    Case("server-terminated", "interrupted/server_died", partial(_server_ends, end=_terminate)),
    Case("client-gone", "interrupted/server_died", partial(_server_ends, end=_close_input)),
    Case("job-cancelled", "cancelled/cancelled", _cancel),
)
