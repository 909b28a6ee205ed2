"""What is left when a process with workers is killed: nothing of its own, and all of others."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_SERVER = """
import subprocess, sys
from pathlib import Path
from egg_mcp.sandbox import live_groups
worker = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
live_groups.add(worker.pid, Path(sys.argv[1]))
print(worker.pid, live_groups._shells[0].pid, flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits in /proc")
@pytest.mark.parametrize("name", ["plain", "with blanks ", "-rf", "line\nbreak"])
def test_killed_server_takes_its_own_with_it_and_nothing_else(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "egg-zygote-x"
    folder.mkdir(parents=True)
    neighbour = tmp_path / "line" / "keep"
    neighbour.mkdir(parents=True)
    command = [sys.executable, "-c", _SERVER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        worker, shell = map(int, server.stdout.readline().split())
        server.send_signal(signal.SIGKILL)
    _await_end(worker)
    _await_end(shell)
    assert neighbour.exists()
    assert folder.exists() is ("\n" in name)


def _await_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(30_000), "the worker outlived its server"
    os.close(descriptor)
