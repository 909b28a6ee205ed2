"""RealServer: the server as its own process, spoken to line by line, and what it leaves behind."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
ANSWER_S = 120.0
"""A server that has not answered by then is broken; far above what any answer takes."""

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def source(kind: str, name: str) -> str:
    """A fixture's text."""
    return (FIXTURES / kind / f"{name}.py").read_text(encoding="utf-8")


def command(state: Path, workspace: Path, *more: str) -> list[str]:
    """How a client starts the server."""
    return [
        *(sys.executable, "-P", "-m", "egg_mcp", *more),
        *("--state-dir", str(state), "--workspace", str(workspace), "--device", "emulated"),
    ]


def environment(**more: str) -> dict[str, str]:
    """What a client passes on, and what the test adds."""
    return {**os.environ, "PYTHONWARNINGS": "ignore", **more}


@dataclass(slots=True)
class RealServer:
    """A server process with its lines."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])
    _queue: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue[str | None])
    _next_id: int = 1

    def start_reading(self) -> None:
        """Collect standard output in the background."""
        threading.Thread(target=self._read, daemon=True).start()

    def write(self, line: str) -> None:
        """Send one line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request without waiting; returns its id."""
        self._next_id += 1
        request = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self.write(json.dumps(request))
        return self._next_id

    def answer(self, request_id: int | None) -> dict[str, Any]:
        """The reply to that request; other lines pass by."""
        while True:
            line = self._queue.get(timeout=ANSWER_S)
            assert line is not None, "the server closed its output"
            message: dict[str, Any] = json.loads(line)
            if "method" not in message and message.get("id") == request_id:
                return message

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply."""
        return self.answer(self.start(method, params))

    def handshake(self) -> dict[str, Any]:
        """Initialize as a client of the older protocol does."""
        reply = self.request("initialize", INITIALIZE)
        self.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return reply

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; returns its result."""
        reply = self.request("tools/call", {"name": name, "arguments": arguments})
        result: dict[str, Any] = reply["result"]
        return result

    def facts(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, wait for its job; returns the structured content."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result["content"]
        facts: dict[str, Any] = result["structuredContent"]
        while facts.get("status") == "running":
            facts = self.tool("get_job", job_id=facts["job_id"], wait_s=50)["structuredContent"]
        return facts

    def open_session(self) -> str:
        """Open a session on the vector addition."""
        facts = self.facts("design_algorithm", reference_code=source("references", "good_add"))
        session_id: str = facts["session_id"]
        return session_id

    def start_hanging_job(self, session_id: str) -> str:
        """Hand in a kernel that never returns; returns its job once the kernel is running."""
        facts = self.tool(
            "design_algorithm",
            session_id=session_id,
            kernel_code=source("candidates", "hangs"),
            wait_s=0,
        )["structuredContent"]
        job_id: str = facts["job_id"]
        summary = ""
        while "trial" not in summary:
            summary = self.tool("get_job", job_id=job_id, wait_s=0.2)["structuredContent"][
                "summary"
            ]
        return job_id

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._queue.put(line)
        self._queue.put(None)


@contextmanager
def real_server(state: Path, workspace: Path, *more: str, **env: str) -> Generator[RealServer]:
    """A server that has shaken hands; killed in the end if it still runs."""
    process = subprocess.Popen(
        command(state, workspace, *more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=environment(**env),
    )
    server = RealServer(process)
    server.start_reading()
    try:
        server.handshake()
        yield server
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def workers_of(server_pid: int) -> list[int]:
    """Processes started as workers of that server, wherever they hang in the tree now (Linux)."""
    mark = f"--parent\0{server_pid}\0"
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "cmdline").read_bytes().decode("utf-8", "replace"):
                    found.append(int(entry.name))
    return found
