"""Zygote: the parent's hold on the process that forks workers, each into a box of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Self, cast

import anyio
import anyio.abc

from egg_mcp.errors import SandboxRefused, WorkerUnavailable, ZygoteDied
from egg_mcp.sandbox import live_groups
from egg_mcp.sandbox.box_limits import box_limits
from egg_mcp.sandbox.channel import Channel
from egg_mcp.sandbox.frames import FrameError
from egg_mcp.sandbox.launcher import Launched, Role, worker_environment
from egg_mcp.sandbox.output_pipe import OutputPipe
from egg_mcp.sandbox.plain_launcher import spawn
from egg_mcp.sandbox.process_handle import ForkedProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport

LAYERS = ("namespaces", "uid", "landlock", "seccomp", "limits")
_PRIVATE_SCRATCH = "/tmp/egg"  # noqa: S108 - in the worker's own namespace
_FIRST_SLOT_UID = 61_184
_SLOT_UIDS = 4_335
"""systemd's range for transient users: nobody's account (systemd.io/UIDS-GIDS)."""
_FORK_S = 20.0
_LAST_WORDS_S = 1.0
_TOP_PARTS = 2
"""Of a folder right below the root: that is nobody's own."""


class Zygote:
    """Running. Dies with this process; everything it forked dies with it."""

    def __init__(
        self, launched: Launched, settings: Settings, task_group: anyio.abc.TaskGroup
    ) -> None:
        self._launched = launched
        self._settings = settings
        self._task_group = task_group
        self._forks: dict[int, ForkedProcess] = {}
        self._answers: dict[int, tuple[anyio.Event, list[dict[str, Any]]]] = {}
        self._numbers = 0
        self._closed = False
        self._slot_uid = _FIRST_SLOT_UID + secrets.randbelow(_SLOT_UIDS)
        self._device: DeviceFacts | None = None
        self.sandbox = SandboxReport(mode=settings.sandbox)

    @classmethod
    async def start(cls, settings: Settings, task_group: anyio.abc.TaskGroup) -> Self:
        """Start one, have it try its box, and wait until it is ready.

        Raises:
            WorkerUnavailable: no torch there, no such device, or not ready in time.
            SandboxRefused: the box holds less than `settings.sandbox` asks for.
        """
        zygote = cls(await spawn("zygote", settings, task_group), settings, task_group)
        try:
            await zygote._become_ready()
        except BaseException:
            await zygote.aclose()
            raise
        task_group.start_soon(zygote._listen)
        return zygote

    @property
    def is_running(self) -> bool:
        """Whether it can fork."""
        return not self._closed and not self._launched.process.has_ended

    @property
    def device(self) -> DeviceFacts:
        """As `Launcher.device`."""
        if self._device is None:
            raise RuntimeError("Zygote comes from Zygote.start")
        return self._device

    @property
    def pid(self) -> int:
        """Its process."""
        return self._launched.process.pid

    async def launch(self, role: Role) -> Launched:
        """Fork a worker.

        Raises:
            ZygoteDied: it is gone, or does not answer.
        """
        if not self.is_running:
            raise self._death()
        self._numbers += 1
        number = self._numbers
        channel, theirs = Channel.pair()
        output = OutputPipe(self._settings.max_output_bytes)
        folder = None if self.has_own_files else Path(tempfile.mkdtemp(prefix=f"egg-{role}-"))
        scratch = _PRIVATE_SCRATCH if folder is None else str(folder)
        request: dict[str, Any] = {
            "op": "fork",
            "id": number,
            "role": role,
            "env": worker_environment(scratch),
            "plan": {"scratch": scratch, **({"devices": []} if role == "compiler" else {})},
        }
        answered, answers = self._answers[number] = (anyio.Event(), [])
        try:
            with anyio.fail_after(min(_FORK_S, self._settings.start_deadline_s)):
                await self._launched.channel.send(request, (theirs.fileno(), output.theirs))
                await answered.wait()
        except (TimeoutError, OSError, ValueError, anyio.ClosedResourceError) as error:
            # Stuck, or closed by its listener while we asked.
            await self.aclose()
            raise self._death() from error
        finally:
            theirs.close()
            output.hand_over()
            self._answers.pop(number, None)
            self._task_group.start_soon(output.drain)
            if not answers:
                channel.close()
                _remove(folder)
        if not answers:
            raise self._death()
        process = self._forks[number]
        live_groups.add(process.pid, folder)
        return Launched(process, channel, output, folder)

    async def aclose(self) -> None:
        """Kill it and with it every worker it has forked. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._launched.process.kill()
        with anyio.CancelScope(shield=True):
            await self._launched.process.wait()
        live_groups.discard(self._launched.process.pid)
        self._forget_all()
        self._launched.channel.close()
        _remove(self._launched.folder)

    @property
    def has_own_files(self) -> bool:
        """As `Launcher.has_own_files`."""
        return "namespaces" in self.sandbox.layers

    async def _become_ready(self) -> None:
        layers = [] if self._settings.sandbox == "off" else list(LAYERS)
        plan = {
            "layers": layers,
            "limits": box_limits(self._settings),
            "hidden": _hidden(self._settings),
            "scratch": _PRIVATE_SCRATCH,
            "slot_uid": self._slot_uid,
        }
        ready: dict[str, Any] = {}
        try:
            with anyio.move_on_after(self._settings.start_deadline_s):
                await self._launched.channel.send({"op": "settings", "plan": plan})
                ready = await self._launched.channel.receive()
        except (anyio.EndOfStream, ConnectionError, FrameError):
            # What it printed last may still be on its way.
            with anyio.move_on_after(_LAST_WORDS_S):
                await self._launched.output.ended.wait()
        if ready.get("type") != "ready":
            error: object = ready.get("error")
            said = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else ""
            raise self._unavailable(said or self._printed() or "it said nothing")
        try:
            self._learn(ready)
        except (KeyError, TypeError, ValueError) as error:
            raise self._unavailable(f"it does not say what it is: {error!r}") from error
        _accept(self.sandbox)

    def _learn(self, ready: dict[str, Any]) -> None:
        self.sandbox = SandboxReport.model_validate(
            {"mode": self._settings.sandbox, **ready["sandbox"]}
        )
        self._device = DeviceFacts.model_validate(
            {**ready["device"], "sandbox": self.sandbox.short}
        )

    def _unavailable(self, why: str) -> WorkerUnavailable:
        return WorkerUnavailable(
            f"no worker comes up under {str(self._settings.worker_python)!r}: {why}. `egg-mcp "
            "doctor` checks this; torch and triton come with `pip install 'egg-mcp[torch]'`, or "
            "name another Python with --worker-python."
        )

    async def _listen(self) -> None:
        """Take in what it reports until it ends."""
        try:
            while True:
                self._take(await self._launched.channel.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, OSError, FrameError):
            await self.aclose()
        except (KeyError, ValueError, TypeError):
            # No event of ours: whatever sent it is not to be trusted any more.
            await self.aclose()

    def _take(self, event: dict[str, Any]) -> None:
        number = int(event["id"])
        if event["type"] == "ended":
            if number in self._forks:
                self._forks[number].report(int(event["code"]))
            return
        if event["type"] == "cleared":
            fork = self._forks.pop(number, None)
            if fork is not None:
                fork.clear()
            return
        descriptors = self._launched.channel.take_descriptors()
        waiting = self._answers.get(number)
        if waiting is None:
            # Whoever asked has been cancelled since.
            for pidfd in descriptors:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                os.close(pidfd)
            return
        answered, answers = waiting
        if event["type"] == "forked":
            (pidfd,) = descriptors
            self._forks[number] = ForkedProcess(int(event["pid"]), pidfd)
            answers.append(event)
        answered.set()

    def _forget_all(self) -> None:
        for answered, _ in self._answers.values():
            answered.set()
        for fork in self._forks.values():
            fork.report(None)
            fork.clear()
        self._forks.clear()

    def _printed(self) -> str:
        return self._launched.output.tail.text(2_000).strip()[-500:]

    def _death(self) -> ZygoteDied:
        return ZygoteDied(f"the zygote is gone; it printed: {self._printed() or 'nothing'}")


def _accept(report: SandboxReport) -> None:
    """Refuse a box that holds less than was asked for.

    Raises:
        SandboxRefused: with what is missing and how to mend it.
    """
    fix = " Mend it: " + "; or ".join(report.fix) + "." if report.fix else ""
    if report.cuda.get("state") == "fails":
        raise SandboxRefused(
            f"CUDA does not come up in the box: {report.cuda.get('said')}. Its layers: "
            f"{', '.join(report.layers)}. To run kernels all the same: --sandbox off (stdio only)"
        )
    if report.mode == "strict" and report.weak:
        missing = "; ".join(f"{one.name}: {one.state} ({one.why})" for one in report.weak)
        raise SandboxRefused(f"--sandbox strict needs every property; {missing}.{fix}")
    if report.mode == "auto" and report.tier == 0:
        reasons = "; ".join(f"{layer}: {why}" for layer, why in report.failed.items())
        raise SandboxRefused(
            f"No isolation works here ({reasons}), and candidates are untrusted code.{fix} "
            "To run them with your own rights all the same: --sandbox off (stdio only)."
        )


def _hidden(settings: Settings) -> list[str]:
    """What a worker may not read though a folder that it may read holds it."""
    own = (settings.state_dir, settings.workspace)
    return [os.path.normpath(path) for path in own if len(path.parts) > _TOP_PARTS]


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
