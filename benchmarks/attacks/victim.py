"""Victim: a process outside that has a secret, and keeps still until it is touched (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CAT = "/bin/cat"
_MOST_LOOKS = 100_000


@dataclass(frozen=True, slots=True)
class Victim:
    """Waits for what never comes: its input is a socket, its output a pipe; we hold both ends.

    Attributes:
        process: in a session of its own.
        line: the other end of its input: what is sent through its own descriptor arrives here.
        output: the other end of its output.
    """

    process: subprocess.Popen[bytes]
    line: socket.socket
    output: int

    @classmethod
    def start(cls, in_environment: str, in_arguments: str) -> Victim:
        """Start one with these secrets in its environment and in its arguments."""
        line, theirs = socket.socketpair()
        output, written = os.pipe()
        process = subprocess.Popen(
            [in_arguments],
            executable=_CAT,
            stdin=theirs.fileno(),
            stdout=written,
            stderr=subprocess.DEVNULL,
            env={"SECRET": in_environment},
            start_new_session=True,
        )
        theirs.close()
        os.close(written)
        line.setblocking(False)
        os.set_blocking(output, False)
        # A program that has only just begun shows none yet.
        environment = Path(f"/proc/{process.pid}/environ")
        for _ in range(_MOST_LOOKS):
            if in_environment.encode() in environment.read_bytes():
                break
            os.sched_yield()
        return cls(process, line, output)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def received(self) -> str:
        """What somebody has sent through its descriptors; empty when nobody has."""
        with contextlib.suppress(BlockingIOError):
            if said := self.line.recv(1_024):
                return f"{said[:40]!r} came out of the victim's socket"
        with contextlib.suppress(BlockingIOError):
            if said := os.read(self.output, 1_024):
                return f"{said[:40]!r} came out of the victim's pipe"
        return ""

    def end(self) -> None:
        """Kill and reap it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.line.close()
        os.close(self.output)
