from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.sandbox import frames

LAUNCH = Path(__file__).parents[3] / "sandbox" / "worker" / "launch.py"
FILE_BYTES = 1 << 22


class Worker:
    """One worker process and the parent's end of its socket."""

    def __init__(self, role: str, folder: Path, files: list[int], device: str) -> None:
        own, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    str(LAUNCH),
                    f"--role={role}",
                    f"--socket={theirs.fileno()}",
                    f"--parent={os.getpid()}",
                    f"--device={device}",
                ],
                cwd=folder,
                env={**os.environ, "TRITON_CACHE_DIR": str(folder / "triton")},
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
            )
        self.folder = folder
        self._socket = own
        self.hello = self.receive()
        if self.hello["type"] == "ready":
            message = frames.encode({"op": "open_files", "fds": 2})
            socket.send_fds(own, [message], files)
            assert self.receive() == {"ok": True}

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self._socket.sendall(frames.encode({"op": op, **fields}))
        return self.receive()

    def done(self, op: str, **fields: Any) -> dict[str, Any]:
        reply = self.ask(op, **fields)
        assert reply["ok"], reply
        return reply

    def receive(self) -> dict[str, Any]:
        """The next answer; the notes before it are kept."""
        self.notes: list[str] = []
        while (message := self._receive_one()).get("type") == "note":
            self.notes.append(message["at"])
        return message

    def _receive_one(self) -> dict[str, Any]:
        header = self._read(frames.HEADER.size)
        return frames.decode(self._read(frames.body_length(header)))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part, "the worker closed its socket"
            data += part
        return data

    def close(self) -> int:
        self._socket.close()
        return self.process.wait(timeout=20)


Start = Callable[..., Worker]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts workers that share an inbox and an outbox."""
    workers: list[Worker] = []
    with tempfile.TemporaryFile() as inbox, tempfile.TemporaryFile() as outbox:
        for file in (inbox, outbox):
            file.truncate(FILE_BYTES)

        def run(role: str, device: str = "emulated", swap: bool = False) -> Worker:
            folder = tmp_path_factory.mktemp(role)
            files = [inbox.fileno(), outbox.fileno()]
            worker = Worker(role, folder, files[::-1] if swap else files, device)
            workers.append(worker)
            return worker

        yield run
        for worker in workers:
            worker.close()
