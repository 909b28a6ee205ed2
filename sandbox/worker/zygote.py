"""Zygote: a process that has only imported torch and triton, and forks a worker for each request.

One thread, no operation, no CUDA: a fork after any of them hangs or finds a dead device
(pytorch#17199). It runs trusted code only; what a fork runs, it runs in a box.

Requests from the server: one `settings` first, then any number of `fork`s, each with two
descriptors: the worker's channel and where it prints. Events to the server: `ready` once,
`forked` with the guard's pidfd, `ended` with its exit code, `cleared` when nothing is left of what it
has started, `refused`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from egg_mcp.sandbox.worker import engine, main
from egg_mcp.sandbox.worker.channel import Channel
from egg_mcp.sandbox.worker.isolation import privileges
from egg_mcp.sandbox.worker.isolation.box import run_boxed
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.probe import probe
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.readable_paths import nvidia_nodes, readable_paths

EXIT_FAILED = 3
MAX_FACTS_BYTES = 1 << 16


def serve(_role: str, descriptor: int, wanted: str) -> NoReturn:
    """Get ready, then fork until the server closes the socket; never returns."""
    warnings.simplefilter("ignore")
    control = Channel(descriptor)
    received = control.receive()
    if received is None:
        os._exit(0)
    try:
        zygote = Zygote(control, descriptor, wanted, received[0])
    except OpError as error:
        main.fail(control, error.kind, error.message)
    control.send(zygote.ready())
    zygote.run()


class Zygote:
    """Forks, reaps, reports."""

    def __init__(
        self, control: Channel, descriptor: int, wanted: str, settings: dict[str, Any]
    ) -> None:
        self._control = control
        self._descriptor = descriptor
        self._guards: dict[int, tuple[int, int]] = {}
        self._own: tuple[int, ...] = ()
        self._ended: list[int] = []
        # The probe first, while this process is small and forks fast.
        nodes = nvidia_nodes() if wanted != "emulated" else []
        self._plan = _plan(settings, nodes)
        self.sandbox = (
            probe(self._plan, cuda=bool(nodes), watched=True) if self._plan.layers else {}
        )
        if self.sandbox:
            found = {"layers": self.sandbox["layers"]}
            self._plan = BoxPlan.from_json({**self._plan.to_json(), **found})
        engine.load_torch()
        self.emulated = engine.is_emulated(wanted, bool(nodes) and _in_fork(_has_cuda) is True)
        engine.load_triton(self.emulated)
        engine.load_roles(self.emulated)
        self.device = _in_fork(lambda: _device_facts(self.emulated))
        if not isinstance(self.device, dict):
            raise OpError("no_cuda", f"the device does not start: {self.device}")
        gc.collect()
        gc.freeze()

    def ready(self) -> dict[str, Any]:
        """The first event."""
        return {
            "type": "ready",
            "role": "zygote",
            "device": self.device,
            "sandbox": self.sandbox,
        }

    def run(self) -> NoReturn:
        """Serve requests and deaths until the server is gone."""
        # What a killed guard leaves behind comes to this process, and each death wakes it.
        privileges.adopt_orphans()
        death, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(death, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_only)
        self._own = (death, woken)
        while True:
            readable, _, _ = select.select([self._descriptor, death], [], [])
            if death in readable:
                os.read(death, 4096)
            if self._descriptor in readable:
                received = self._control.receive()
                if received is None:
                    os._exit(0)
                self._fork(*received)
            self._reap()

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if len(descriptors) != 2:
            self._control.send({"type": "refused", "id": request.get("id"), "why": "descriptors"})
            return
        guard = os.fork()
        if guard == 0:
            self._become(request, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        pidfd = os.pidfd_open(guard)
        self._guards[guard] = (pidfd, request["id"])
        self._control.send({"type": "forked", "id": request["id"], "pid": guard}, [pidfd])

    def _become(self, request: dict[str, Any], channel: int, output: int) -> NoReturn:
        """In the fork: turn into the guard of a worker."""
        try:
            os.close(self._descriptor)
            signal.set_wakeup_fd(-1)
            for one in (*self._own, *(pidfd for pidfd, _ in self._guards.values())):
                os.close(one)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            plan = BoxPlan.from_json({**self._plan.to_json(), **request["plan"]})
            work = _work(request["role"], channel, self.emulated, request["env"])
            run_boxed(plan, work, (channel,), _failed(channel))
        finally:
            os._exit(EXIT_FAILED)

    def _reap(self) -> None:
        """Report what ended; kill what has lost its guard and come to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._guards:
                pidfd, number = self._guards.pop(pid)
                os.close(pidfd)
                code = os.waitstatus_to_exitcode(status)
                self._control.send({"type": "ended", "id": number, "code": code})
                self._ended.append(number)
        # Each of their deaths wakes us again, until nothing is left of them.
        orphans = [pid for pid in _children() if pid not in self._guards]
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        if not orphans:
            for number in self._ended:
                self._control.send({"type": "cleared", "id": number})
            self._ended.clear()


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="utf-8").split())
    return found


def _wake_only(_number: int, _frame: object) -> None:
    """A signal without a handler wakes nobody."""


def _work(
    role: str, channel: int, emulated: bool, environment: dict[str, str]
) -> Callable[[], None]:
    def work() -> None:
        os.environ.clear()
        os.environ.update({**environment, **engine.variables(emulated)})
        # The zygote's temporary folder, which this process has inherited, is not in the box.
        tempfile.tempdir = None
        # Imported late: seeds needs torch, and the probe comes before that.
        importlib.import_module("egg_mcp.sandbox.worker.seeds").draw_afresh()
        main.run(role, Channel(channel), emulated)

    return work


def _failed(channel: int) -> Callable[[str], None]:
    def failed(reason: str) -> None:
        Channel(channel).send({"type": "failed", "error": {"kind": "box", "message": reason}})

    return failed


def _plan(settings: dict[str, Any], nodes: list[str]) -> BoxPlan:
    return BoxPlan.from_json(
        {
            **settings["plan"],
            "read_only": [*readable_paths(), *settings["plan"].get("read_only", ())],
            "devices": nodes,
        }
    )


def _has_cuda() -> bool:
    return bool(engine.load_torch().cuda.is_available())


def _device_facts(emulated: bool) -> dict[str, Any]:
    return engine.make_worker("canary", emulated).device.facts()


def _in_fork(question: Callable[[], Any]) -> Any:
    """The answer, found in a fork that then ends: asking here would touch the device.

    What was raised comes back as text.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            try:
                found = question()
            except Exception as error:  # noqa: BLE001 - any failure is an answer
                found = f"{type(error).__name__}: {error}"
            theirs.sendall(json.dumps(found).encode())
        finally:
            os._exit(0)
    theirs.close()
    parts = bytearray()
    while part := ours.recv(MAX_FACTS_BYTES):
        parts += part
    ours.close()
    os.waitpid(pid, 0)
    return json.loads(parts) if parts else "the process that asked the device died"
