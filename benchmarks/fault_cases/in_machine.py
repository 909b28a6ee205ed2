"""Faults of the machine: its Python, its device, others that want the same device."""

from __future__ import annotations

import fcntl
import os
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.abc

from benchmarks.fault_cases.bench import Bench, aftermath, attempt, warm
from benchmarks.fault_cases.case import Case, Outcome
from benchmarks.fault_cases.sources import HONEST, candidate
from egg_mcp.errors import WorkerUnavailable
from egg_mcp.executor.lease import lease_folder, visible_device
from egg_mcp.sandbox import frames
from egg_mcp.sandbox.launcher import Launched, Launcher, Role
from egg_mcp.sandbox.starting import start_launcher
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport

_UNAVAILABLE = "failed/worker_unavailable"
_CRASH = candidate(forward="os._exit(1)")


_ON_THE_SOCKET = (
    "import socket, sys; "
    "number = int(sys.argv[sys.argv.index('--socket') + 1]); "
    "channel = socket.socket(fileno=number); "
    "channel.recv(1 << 20); "
    "channel.sendall(bytes.fromhex('{said}')); "
    "channel.recv(1)"
)


async def _python(
    bench: Bench, script: str | None, mode: int = 0o700, start_deadline_s: float = 30
) -> Outcome:
    """An executor with that Python cannot work; the one beside it can."""
    python = bench.folder / "python"
    python.unlink(missing_ok=True)
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        python.chmod(mode)
    async with bench.own(worker_python=python, start_deadline_s=start_deadline_s) as subject:
        got, text = await attempt(subject, HONEST)
    return await aftermath(bench.shared, got, text)


def _says_on_the_socket(said: bytes) -> str:
    program = _ON_THE_SOCKET.format(said=said.hex())
    return f'exec {sys.executable} -c "{program}" "$@"'


async def _no_gpu(bench: Bench) -> Outcome:
    """A GPU is asked for, and the worker sees none."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = "99"
    try:
        async with bench.own(device="cuda") as subject:
            got, text = await attempt(subject, HONEST)
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    return await aftermath(bench.shared, got, text)


class _SickLauncher:
    """A launcher whose canaries do not come up while its device is sick."""

    is_sick = False

    def __init__(self, healthy: Launcher) -> None:
        self._healthy = healthy

    @classmethod
    async def start(cls, settings: Settings, task_group: anyio.abc.TaskGroup) -> _SickLauncher:
        """Around the launcher of this machine."""
        return cls(await start_launcher(settings, task_group))

    @property
    def is_running(self) -> bool:
        """As `Launcher`."""
        return self._healthy.is_running

    @property
    def device(self) -> DeviceFacts:
        """As `Launcher`."""
        return self._healthy.device

    @property
    def sandbox(self) -> SandboxReport:
        """As `Launcher`."""
        return self._healthy.sandbox

    @property
    def has_own_files(self) -> bool:
        """As `Launcher`."""
        return self._healthy.has_own_files

    async def launch(self, role: Role) -> Launched:
        """As `Launcher`, unless the device is sick."""
        if role == "canary" and _SickLauncher.is_sick:
            raise WorkerUnavailable("the CUDA device does not start: injected")
        return await self._healthy.launch(role)

    async def aclose(self) -> None:
        """As `Launcher`."""
        await self._healthy.aclose()


async def _sick_device(bench: Bench) -> Outcome:
    """After a crash the canary fails: nothing runs until it sings again."""
    async with bench.own(_SickLauncher.start) as subject:
        await attempt(subject, HONEST)
        await attempt(subject, _CRASH)
        _SickLauncher.is_sick = True
        try:
            got, text = await attempt(subject, HONEST)
        finally:
            _SickLauncher.is_sick = False
        return await aftermath(subject, got, text)


async def _two_at_once(bench: Bench) -> Outcome:
    """Two executors want one device: the second waits, knows its place, and both are right."""
    said: list[str] = []
    found: list[tuple[str, str]] = []

    async def listen(line: str) -> None:
        said.append(line)

    async with bench.own() as other:
        await warm(bench.shared)
        await warm(other)
        slow = candidate(forward="time.sleep(0.1)")
        async with anyio.create_task_group() as group:

            async def judge(subject: object, source: str) -> None:
                found.append(await attempt(subject, source, listen))  # pyright: ignore[reportArgumentType]

            group.start_soon(judge, bench.shared, slow)
            group.start_soon(judge, other, slow)
    queued = any(line == "queued: 1 before this one on the device" for line in said)
    outcome = await aftermath(bench.shared, *min(found))
    wrong = "" if queued and found[0] == found[1] else "no position, or not both right"
    return Outcome(outcome.got, outcome.text, outcome.next_passed, outcome.lost, wrong)


async def _dead_holder(bench: Bench) -> Outcome:
    """A process that holds the device's lock is killed: the lock is free at once."""
    await warm(bench.shared)
    device = await bench.shared.executor.device()
    name = device.uuid or visible_device(os.environ)
    safe = "".join(char if char.isalnum() else "-" for char in name)
    lock = lease_folder() / f"{safe}.lock"
    script = (
        f"import fcntl, os; lock = os.open({str(lock)!r}, os.O_RDWR | os.O_CREAT, 0o600); "
        "fcntl.flock(lock, fcntl.LOCK_EX); print('held', flush=True); input()"
    )
    async with await anyio.open_process([sys.executable, "-c", script]) as holder:
        if holder.stdout is None:
            raise AssertionError("a pipe was asked for")
        await holder.stdout.receive()
        is_held = _is_held(lock)
        holder.kill()
        await holder.wait()
    got, text = await attempt(bench.shared, HONEST)
    outcome = await aftermath(bench.shared, got, text)
    wrong = outcome.wrong if is_held else "the lock was not held"
    return Outcome(outcome.got, outcome.text, outcome.next_passed, outcome.lost, wrong)


def _is_held(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


CASES = (
    Case("python-missing", _UNAVAILABLE, partial(_python, script=None), "--worker-python"),
    Case(
        "python-not-executable",
        _UNAVAILABLE,
        partial(_python, script="exit 0", mode=0o600),
        "--worker-python",
    ),
    Case("python-that-exits", _UNAVAILABLE, partial(_python, script="exit 7")),
    Case(
        "python-that-prints-garbage",
        _UNAVAILABLE,
        partial(_python, script="echo garbage; exit 1"),
        "garbage",
    ),
    Case(
        "python-without-torch",
        _UNAVAILABLE,
        partial(_python, script=f'exec {sys.executable} -S "$@"'),
        "egg-mcp[torch]",
    ),
    Case(
        "python-that-hangs",
        _UNAVAILABLE,
        partial(_python, script="exec sleep 1000", start_deadline_s=1),
        "--worker-python",
    ),
    Case(
        "python-with-garbage-on-the-socket",
        _UNAVAILABLE,
        partial(_python, script=_says_on_the_socket(b"garbage, garbage")),
        "--worker-python",
    ),
    Case(
        "python-that-is-ready-without-a-word",
        _UNAVAILABLE,
        partial(_python, script=_says_on_the_socket(frames.encode({"type": "ready"}))),
        "--worker-python",
    ),
    Case("gpu-wanted-and-not-there", _UNAVAILABLE, _no_gpu, "sees no CUDA device"),
    Case("device-sick-after-a-crash", "failed/device_sick", _sick_device, "known sum"),
    Case("two-servers-one-device", "pass/-", _two_at_once),
    Case("lock-holder-killed", "pass/-", _dead_holder),
)
