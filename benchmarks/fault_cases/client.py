"""StdioClient: as much of an MCP client as a fault needs; blocking, one request at a time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROTOCOL = "2025-06-18"
_MOST_WAITS = 20


@dataclass(slots=True)
class StdioClient:
    """A server process and its two pipes."""

    process: subprocess.Popen[str]
    _number: int = 0

    @classmethod
    @contextlib.contextmanager
    def open(cls, state: Path, workspace: Path, **more: str) -> Generator[StdioClient]:
        """A server on that state that has shaken hands; killed in the end if it still runs.

        Args:
            state: its state folder.
            workspace: its workspace, and where its temporary files go.
            more: further variables of its environment.
        """
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "egg_mcp"),
                *("--state-dir", str(state), "--workspace", str(workspace)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TMPDIR": str(workspace), **more},
        )
        client = cls(process)
        try:
            client._ask(
                "initialize",
                protocolVersion=_PROTOCOL,
                capabilities={},
                clientInfo={"name": "faults", "version": "1"},
            )
            client._send({"method": "notifications/initialized"})
            yield client
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a tool that must succeed.

        Raises:
            RuntimeError: it did not.
        """
        result = self._ask("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result['content']}")
        return dict(result["structuredContent"])

    def finish(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call, then wait for the job to end."""
        report = self.call(tool, **arguments, wait_s=50)
        for _ in range(_MOST_WAITS):
            if report["status"] != "running":
                break
            report = self.call("get_job", job_id=report["job_id"], wait_s=50)
        return report

    def close_input(self) -> None:
        """What a client does that goes away."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        if self.process.stdout is None:
            raise RuntimeError("no pipe")
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._number:
                return dict(message["result"])
        raise RuntimeError("the server has ended")

    def _send(self, message: dict[str, Any]) -> None:
        if self.process.stdin is None:
            raise RuntimeError("no pipe")
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()
