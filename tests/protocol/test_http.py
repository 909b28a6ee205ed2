"""Streamable HTTP on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client

from tests.protocol.real_server import command, environment, source, workers_of

MOST_TRIES = 200_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    folder = tmp_path_factory.mktemp("http")
    port = free_port()
    start = command(folder / "state", folder, "--transport", "http", "--port", str(port))
    with subprocess.Popen(start, env=environment(), text=True, stdin=subprocess.DEVNULL) as process:
        try:
            _wait_for(port, process)
            yield port, process
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(MOST_TRIES):
        assert process.poll() is None, "the server ended"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            continue
    raise AssertionError("the server does not listen")


def status_of(port: int, **headers: str) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp",
        data=b"{}",
        method="POST",
        headers={
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - loopback
            status: int = reply.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_opens_a_session_and_hands_in_a_kernel(
    running: tuple[int, subprocess.Popen[str]], mode: Literal["auto", "legacy"]
) -> None:
    async def drive() -> None:
        async with Client(f"http://127.0.0.1:{running[0]}/mcp", mode=mode) as client:

            async def call(tool: str, **arguments: Any) -> Any:
                return await client.call_tool(tool, arguments)

            reference = source("references", "good_add") + f"# {mode}\n"
            opened = await call("design_algorithm", reference_code=reference, wait_s=50)
            session_id = opened.structured_content["session_id"]
            refused = await call("design_algorithm", session_id=session_id, kernel_file="kernel.py")
            assert refused.is_error
            assert "not available over HTTP" in refused.content[0].text
            kernel = source("candidates", "add_right")
            judged = await call(
                "design_algorithm", session_id=session_id, kernel_code=kernel, wait_s=50
            )
            assert judged.structured_content["verdict"]["status"] == "emulated_pass"

    anyio.run(drive)


def test_a_client_that_gives_up_does_not_end_its_job(
    running: tuple[int, subprocess.Popen[str]],
) -> None:
    url = f"http://127.0.0.1:{running[0]}/mcp"

    async def drive() -> None:
        async with Client(url) as client:
            reference = source("references", "good_add") + "# gives up\n"
            opened = await client.call_tool(
                "design_algorithm", {"reference_code": reference, "wait_s": 50}
            )
            assert opened.structured_content is not None
            submission = {
                "session_id": opened.structured_content["session_id"],
                "kernel_code": source("candidates", "hangs"),
            }
            started = await client.call_tool("design_algorithm", {**submission, "wait_s": 0})
            assert started.structured_content is not None
            job_id = started.structured_content["job_id"]
            with anyio.move_on_after(0.5):
                await client.call_tool("get_job", {"job_id": job_id, "wait_s": 50})
        async with Client(url) as other:
            seen = await other.call_tool("get_job", {"job_id": job_id, "wait_s": 0})
            assert seen.structured_content is not None
            assert seen.structured_content["status"] == "running"
            ended = await other.call_tool("cancel_job", {"job_id": job_id})
            assert ended.structured_content is not None
            assert ended.structured_content["status"] == "cancelled"

    anyio.run(drive)


def test_a_foreign_host_or_origin_is_refused(running: tuple[int, subprocess.Popen[str]]) -> None:
    assert status_of(running[0], Host="evil.example") == 421
    assert status_of(running[0], Origin="http://evil.example") == 403


def test_an_address_that_others_reach_is_refused(tmp_path: Path) -> None:
    start = command(tmp_path / "state", tmp_path, "--transport", "http", "--host", "0.0.0.0")  # noqa: S104

    done = subprocess.run(
        start, env=environment(), capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 2
    assert "0.0.0.0" in done.stderr  # noqa: S104
    assert "ssh" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sigterm_ends_the_server_and_its_workers(tmp_path: Path) -> None:
    port = free_port()
    start = command(tmp_path / "state", tmp_path, "--transport", "http", "--port", str(port))

    async def drive(pid: int) -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await client.call_tool(
                "design_algorithm",
                {"reference_code": source("references", "good_add"), "wait_s": 50},
            )
        assert workers_of(pid), "a warm referee"

    with subprocess.Popen(start, env=environment(), text=True, stdin=subprocess.DEVNULL) as process:
        _wait_for(port, process)
        anyio.run(drive, process.pid)

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=30) == 143
        assert workers_of(process.pid) == []
