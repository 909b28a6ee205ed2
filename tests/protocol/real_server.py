"""RealServer: the server as its own process, spoken to line by line, and what it leaves behind."""

from __future__ import annotations

import json
import os
import queue
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
ANSWER_S = 120.0
"""A server that has not answered by then is broken; far above what any answer takes."""
END_S = 30.0
"""A process that has not ended by then will not; far above what any end takes."""

Era = Literal["auto", "legacy"]
"""How the SDK's client speaks: as of 2026-07-28, or with the handshake of the years before."""
ERAS: tuple[Era, ...] = ("auto", "legacy")

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def source(kind: str, name: str) -> str:
    """A fixture's text."""
    return (FIXTURES / kind / f"{name}.py").read_text(encoding="utf-8")


def reference(mark: str = "") -> str:
    """The sum of two vectors; another mark makes it another reference."""
    return f"{source('references', 'good_add')}# {mark}\n"


def gate_of(workspace: Path) -> Path:
    """Where to put a file that kernels wait for: in a folder on the PATH, which a box shows."""
    folder = workspace / "gates"
    folder.mkdir(exist_ok=True)
    return folder / "gate"


def gated(gate: Path) -> str:
    """A right kernel that waits in its first call until that file exists."""
    right = source("candidates", "add_right")
    waiting = (
        f"        while not os.path.exists({str(gate)!r}):\n"
        "            time.sleep(0.01)\n"
        "        y = torch.empty_like(a)\n"
    )
    assert "        y = torch.empty_like(a)\n" in right
    return "import os\nimport time\n" + right.replace("        y = torch.empty_like(a)\n", waiting)


def command(state: Path, workspace: Path, *more: str) -> list[str]:
    """How a client starts the server."""
    return [
        *(sys.executable, "-P", "-m", "egg_mcp", *more),
        *("--state-dir", str(state), "--workspace", str(workspace), "--device", "emulated"),
    ]


def environment(**more: str) -> dict[str, str]:
    """What a client passes on, and what the test adds. Warnings of the server are errors."""
    return {**os.environ, "PYTHONWARNINGS": "error", **more}


def marked_path(mark: str, workspace: Path) -> str:
    """A PATH that all descendants of a process inherit: workers get no other free variable."""
    return f"{os.environ['PATH']}:{mark}:{gate_of(workspace).parent}"


@dataclass(slots=True)
class RealServer:
    """A server process with its lines.

    Attributes:
        process: the server.
        mark: in the environment of the server and of every process that comes from it.
        lines: everything it has written to standard output.
    """

    process: subprocess.Popen[str]
    mark: str
    lines: list[str] = field(default_factory=list[str])
    _queue: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue[str | None])
    _reader: threading.Thread | None = None
    _next_id: int = 1

    def start_reading(self) -> None:
        """Collect standard output in the background."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

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

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def message(self) -> dict[str, Any]:
        """The next thing that the server says."""
        line = self._queue.get(timeout=ANSWER_S)
        assert line is not None, "the server closed its output"
        message: dict[str, Any] = json.loads(line)
        return message

    def answer(self, request_id: int | None) -> dict[str, Any]:
        """The reply to that request; other messages pass by."""
        while True:
            message = self.message()
            if "method" not in message and message.get("id") == request_id:
                return message

    def notification(self, method: str) -> dict[str, Any]:
        """The next notification of that kind; other messages pass by."""
        while True:
            message = self.message()
            if message.get("method") == method:
                return message

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply."""
        return self.answer(self.start(method, params))

    def handshake(self) -> dict[str, Any]:
        """Initialize as a client of the older protocol does."""
        reply = self.request("initialize", INITIALIZE)
        self.notify("notifications/initialized")
        return reply

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; returns its result."""
        reply = self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def report(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed; returns the structured content."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result["content"]
        report: dict[str, Any] = result["structuredContent"]
        return report

    def facts(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, wait for its job; returns the structured content."""
        facts = self.report(name, **arguments)
        while facts.get("status") == "running":
            facts = self.report("get_job", job_id=facts["job_id"], wait_s=50)
        return facts

    def open_session(self) -> str:
        """Open a session on the vector addition."""
        session_id: str = self.facts("design_algorithm", reference_code=reference())["session_id"]
        return session_id

    def start_job(self, session_id: str, kernel: str) -> str:
        """Hand in a kernel that does not return; returns its job once the kernel is running."""
        facts = self.report("design_algorithm", session_id=session_id, kernel_code=kernel, wait_s=0)
        job_id: str = facts["job_id"]
        while "trial" not in facts["summary"]:
            assert facts["status"] == "running", facts
            facts = self.report("get_job", job_id=job_id, wait_s=0.2)
        return job_id

    def close_input(self) -> None:
        """Leave, as a client does: end of file."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop_reading(self) -> None:
        """Close our end of its standard output, as a client in trouble."""
        assert self.process.stdout is not None
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, self.process.stdout.fileno())
        os.close(nothing)
        # The reader may still be inside its last read from the pipe: one more short line ends that.
        self.start("ping", {})
        self.end_of_output()

    def end_of_output(self) -> None:
        """Wait for the last line."""
        assert self._reader is not None
        self._reader.join(timeout=END_S)
        assert not self._reader.is_alive(), "something still holds the server's standard output"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._queue.put(line)
        self._queue.put(None)


@contextmanager
def real_server(
    state: Path, workspace: Path, *more: str, stderr: IO[str] | None = None, **env: str
) -> Generator[RealServer]:
    """A server that has shaken hands; killed in the end if it still runs."""
    mark = f"/egg-test-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        command(state, workspace, *more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        encoding="utf-8",
        # Temporary files of its own: the device's lock is there, which other tests hold.
        env=environment(**{"PATH": marked_path(mark, workspace), "TMPDIR": str(workspace), **env}),
    )
    server = RealServer(process, mark)
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


def descendants(mark: str) -> list[int]:
    """Living processes that have this mark in their environment (Linux)."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A zombie's environment is empty: it has ended, whoever forgot to fetch it.
            with suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def left_behind(mark: str) -> list[str]:
    """What still runs although it should not; those that are about to end are waited for."""
    for _ in range(3):
        pids = descendants(mark)
        if not pids:
            return []
        if not _all_end(pids):
            break
    return [_command_line(pid) for pid in descendants(mark)]


def _all_end(pids: list[int]) -> bool:
    """Wait for these processes to end, at most END_S seconds."""
    poll = select.poll()
    waiting: set[int] = set()
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                waiting.add(descriptor)
                poll.register(descriptor, select.POLLIN)
        while waiting:
            ended = poll.poll(END_S * 1_000)
            if not ended:
                return False
            for descriptor, _ in ended:
                poll.unregister(descriptor)
                waiting.discard(descriptor)
                os.close(descriptor)
    finally:
        for descriptor in waiting:
            os.close(descriptor)
    return True


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
    return str(pid)
