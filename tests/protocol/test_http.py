"""Streamable HTTP on loopback."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.protocol.real_server import (
    ANSWER_S,
    END_S,
    ERAS,
    INITIALIZE,
    Era,
    command,
    descendants,
    environment,
    gate_of,
    gated,
    left_behind,
    marked_path,
    reference,
    source,
)

LOOKS = 1_200
LOOK_S = 0.1
EVENTS = "application/json, text/event-stream"


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server process that listens on loopback."""

    process: subprocess.Popen[str]
    port: int
    mark: str
    folder: Path

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}/mcp"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def http_server(folder: Path) -> Generator[HttpServer]:
    port = free_port()
    mark = f"/egg-test-http-{port}-{folder.name}"
    start = command(folder / "state", folder, "--transport", "http", "--port", str(port))
    with subprocess.Popen(
        start,
        env=environment(PATH=marked_path(mark, folder), TMPDIR=str(folder)),
        text=True,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_until_it_listens(port, process)
            yield HttpServer(process, port, mark, folder)
        finally:
            process.kill()


def _wait_until_it_listens(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(LOOKS):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=LOOK_S):
                return
        except OSError:
            try:
                code = process.wait(timeout=LOOK_S)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the server ended with exit code {code}") from None
    raise AssertionError("the server does not listen")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("http")) as server:
        yield server


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; returns what it found."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def give_up(client: Client, tool: str, **arguments: Any) -> None:
    """Call a tool and cancel the call as soon as it is known to wait."""
    with anyio.CancelScope() as scope:

        async def seen(progress: float, total: float | None, message: str | None) -> None:
            del progress, total, message
            scope.cancel()

        await client.call_tool(tool, {**arguments, "wait_s": 50}, progress_callback=seen)
    assert scope.cancelled_caught


def hang_up(server: HttpServer, tool: str, **arguments: Any) -> None:
    """Call a tool as a client of the older protocol, and drop the connection while it waits."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
    headers = {"Content-Type": "application/json", "Accept": EVENTS}

    def post(method: str, params: dict[str, Any], **more: Any) -> http.client.HTTPResponse:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more})
        connection.request("POST", "/mcp", body, headers)
        return connection.getresponse()

    opened = post("initialize", INITIALIZE, id=1)
    headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
    opened.read()
    post("notifications/initialized", {}).read()
    meta = {"progressToken": "mine"}
    waiting = post("tools/call", {"name": tool, "arguments": arguments, "_meta": meta}, id=2)
    while b"notifications/progress" not in waiting.readline():
        pass
    waiting.close()
    connection.close()


def status_of(server: HttpServer, **headers: str) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
    try:
        given = {"Content-Type": "application/json", "Accept": EVENTS, **headers}
        connection.request("POST", "/mcp", body, given)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_opens_a_session_and_hands_in_a_kernel(running: HttpServer, mode: Era) -> None:
    async def drive() -> None:
        async with Client(running.url, mode=mode) as client:
            opened = await call(
                client, "design_algorithm", reference_code=reference(mode), wait_s=50
            )
            session_id = opened["session_id"]
            kernel = source("candidates", "add_right")
            judged = await call(
                client, "design_algorithm", session_id=session_id, kernel_code=kernel, wait_s=50
            )
            assert judged["verdict"]["status"] == "emulated_pass"
        # A handle is not a connection: another client goes on with it.
        async with Client(running.url, mode=mode) as other:
            status = await call(other, "session_status", session_id=session_id)
            assert [line["verdict"] for line in status["candidates"]] == ["emulated_pass"]

    anyio.run(drive)


@pytest.mark.parametrize("mode", ERAS)
def test_files_of_the_server_are_out_of_reach(running: HttpServer, mode: Era) -> None:
    async def drive() -> None:
        async with Client(running.url, mode=mode) as client:
            for arguments in (
                {"reference_file": "reference.py"},
                {"reference_file": "/etc/passwd"},
            ):
                refused = await client.call_tool("design_algorithm", arguments)
                assert refused.is_error
                assert "reference_file is not available over HTTP" in str(refused.content)
            opened = await call(
                client, "design_algorithm", reference_code=reference("files"), wait_s=50
            )
            submission = {"session_id": opened["session_id"], "kernel_file": "kernel.py"}
            refused = await client.call_tool("design_algorithm", submission)
            assert refused.is_error
            assert "kernel_file is not available over HTTP" in str(refused.content)

    anyio.run(drive)


def test_no_client_that_goes_away_ends_its_job(running: HttpServer) -> None:
    gate = gate_of(running.folder)

    async def drive() -> None:
        async with Client(running.url) as client:
            opened = await call(
                client, "design_algorithm", reference_code=reference("gone"), wait_s=50
            )
            submission = {"session_id": opened["session_id"], "kernel_code": gated(gate)}
            await give_up(client, "design_algorithm", **submission)
        async with Client(running.url, mode="legacy") as client:
            found = await call(client, "design_algorithm", **submission, wait_s=0)
            job_id = found["job_id"]
            await give_up(client, "get_job", job_id=job_id)
        async with Client(running.url) as client:
            await give_up(client, "get_job", job_id=job_id)
        await anyio.to_thread.run_sync(
            lambda: hang_up(running, "get_job", job_id=job_id, wait_s=50)
        )

        async with Client(running.url) as client:
            status = await call(client, "session_status", session_id=submission["session_id"])
            evaluations = [line for line in status["jobs"] if "candidate 1" in line]
            assert len(evaluations) == 1, "one job, never begun anew"
            assert job_id in evaluations[0]
            assert (await call(client, "get_job", job_id=job_id, wait_s=0))["status"] == "running"
            gate.touch()
            judged = await call(client, "get_job", job_id=job_id, wait_s=50)
            assert judged["verdict"]["status"] == "emulated_pass"

    try:
        anyio.run(drive)
    finally:
        gate.touch()


def test_a_foreign_host_or_origin_is_refused(running: HttpServer) -> None:
    own = f"http://127.0.0.1:{running.port}"

    assert status_of(running) == 200
    assert status_of(running, Origin=own) == 200
    assert status_of(running, Host="evil.example") == 421
    assert status_of(running, Host=f"evil.example:{running.port}") == 421
    assert status_of(running, Origin="http://evil.example") == 403
    assert status_of(running, Origin="null") == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104 - what must be refused
def test_an_address_that_others_reach_is_refused(tmp_path: Path, host: str) -> None:
    start = command(tmp_path / "state", tmp_path, "--transport", "http", "--host", host)

    done = subprocess.run(
        start,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=ANSWER_S,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert f"--host {host}" in done.stderr
    assert "ssh" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sigterm_ends_the_server_and_its_workers_while_a_kernel_hangs(tmp_path: Path) -> None:
    async def drive(server: HttpServer) -> None:
        async with Client(server.url) as client:
            opened = await call(client, "design_algorithm", reference_code=reference(), wait_s=50)
            hangs = source("candidates", "hangs")
            submission = {"session_id": opened["session_id"], "kernel_code": hangs}
            await give_up(client, "design_algorithm", **submission)
            assert len(descendants(server.mark)) >= 3, "server, referee and candidate run"
            server.process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(lambda: server.process.wait(timeout=END_S))
            assert code == 143

    with http_server(tmp_path) as server:
        anyio.run(drive, server)
        assert left_behind(server.mark) == []


def test_sigint_ends_a_server_that_has_nothing_to_do(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        server.process.send_signal(signal.SIGINT)

        assert server.process.wait(timeout=END_S) == 130
