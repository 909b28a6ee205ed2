"""WorkerProcess: one worker, its process group, its channel, its deadlines."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import anyio

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut, WorkerUnavailable
from egg_mcp.sandbox import frames, live_groups, machine_memory
from egg_mcp.sandbox.gpu_load import gpu_is_busy
from egg_mcp.sandbox.launcher import Launched, Launcher, Role
from egg_mcp.sandbox.output_tail import OutputTail
from egg_mcp.sandbox.process_tree import is_stopped
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.fault import Fault

_LAST_OUTPUT_BYTES = 2_000
_WATCH_S = 0.1
_MOST_NOTES = 1_000
_LAST_MOMENT_S = 2.0
"""How long a process that has closed its channel may take to end."""
_GONE_S = 10.0
"""How long the kernel may take to clear up after a killed worker."""


class UserCodeError(Exception):
    """The worker lives, but the user's code in it did not do what was asked.

    Attributes:
        role: whose worker it is: the reference's code or the candidate's.
        kind: `syntax`, `import`, `missing`, `exception`, `exit`, `out_of_device_memory`
            and so on.
        phase: where: `import`, `construct`, `forward`.
        message: the last line of the exception first.
        traceback: frames of the user's file.
    """

    def __init__(self, error: Mapping[str, Any], role: Role) -> None:
        self.role: Role = role
        self.kind = str(error.get("kind", "exception"))
        self.phase = str(error.get("phase", ""))
        self.message = str(error.get("message", ""))[:2_000]
        self.traceback = str(error.get("traceback", ""))[:6_000]
        super().__init__(self.message)


class WorkerProcess:
    """A running worker. One request at a time; any failure to answer ends it for good."""

    def __init__(self, role: Role, launched: Launched, settings: Settings) -> None:
        self.role: Role = role
        self.device: DeviceFacts | None = None
        self._process = launched.process
        self._channel = launched.channel
        # A candidate's never get as far as this process.
        self._channel.takes_descriptors = role == "referee"
        self._output = launched.output
        self._folder = launched.folder
        self._closed = False
        self._code: int | None = None
        self._reason: Fault | None = None
        self._waits_for = Fault.HANG_ON_HOST
        self._least_free_bytes = (
            machine_memory.least_free_bytes()
            if settings.least_free_memory_bytes is None
            else settings.least_free_memory_bytes
        )

    @classmethod
    async def start(cls, role: Role, launcher: Launcher, settings: Settings) -> Self:
        """Launch a worker and wait until it is ready.

        Args:
            role: what it may be asked.
            launcher: starts its process.
            settings: its deadlines.

        Raises:
            WorkerUnavailable: no torch there, no such device, or not ready in time.
            WorkerDied: a signal ended it, and it was not ours.
            ZygoteDied: the launcher is gone.
        """
        worker = cls(role, await launcher.launch(role), settings)
        facts = await worker._await_ready(settings)
        worker.device = facts.model_copy(update={"sandbox": launcher.sandbox.short})
        return worker

    async def call(
        self,
        op: str,
        *,
        phase: str,
        deadline_s: float,
        fds: Sequence[int] = (),
        **fields: object,
    ) -> dict[str, Any]:
        """Send one request, return its reply.

        Args:
            op: the operation.
            phase: what to call it when it takes too long.
            deadline_s: past it the process group is killed.
            fds: descriptors to hand over.
            fields: the request's other fields.

        Raises:
            UserCodeError: the user's code failed; the worker lives.
            WorkerTimedOut: the deadline passed.
            WorkerDied: the process ended first.
            ProtocolError: what came back is no frame.
        """
        request = {"op": op, **fields}
        if fds:
            request["fds"] = len(fds)
        answered = False
        self._channel.drop_descriptors()
        try:
            with anyio.fail_after(deadline_s):
                await self._channel.send(request, fds)
                reply = await self._reply()
            answered = True
        except TimeoutError:
            reason = await self._why_it_hangs()
            await self.aclose()
            printed = self.printed()
            raise WorkerTimedOut(phase, deadline_s, printed, reason.value, self.role) from None
        except (anyio.EndOfStream, ConnectionError):
            # Its own end, not our signal, is what the caller wants to hear of.
            with anyio.move_on_after(_LAST_MOMENT_S):
                await self._process.wait()
            left_us = not self._process.has_ended
            await self.aclose()
            if left_us:
                raise ProtocolError(
                    f"{self.role} during {phase}: it closed its channel and went on", self.role
                ) from None
            raise self._death(phase) from None
        except frames.FrameError as error:
            await self.aclose()
            raise ProtocolError(f"{self.role} during {phase}: {error}", self.role) from error
        finally:
            # Cancelled in the middle: the reply will come to nobody, so the worker must go.
            if not answered:
                await self.aclose()
        if reply.get("ok") is True:
            return reply
        error: object = reply.get("error")
        if isinstance(error, dict):
            raise UserCodeError(cast("dict[str, Any]", error), self.role)
        await self.aclose()
        text = f"{self.role} during {phase}: no reply, but {repr(reply)[:200]}"
        raise ProtocolError(text, self.role)

    def take_descriptors(self) -> list[int]:
        """Descriptors that came with the last reply, whatever it says of them.

        The caller must close them. None from a candidate: only a referee may send any.
        """
        return self._channel.take_descriptors()

    async def _reply(self) -> dict[str, Any]:
        """The answer, with an eye on the machine's memory while it is not there."""
        self._waits_for = Fault.HANG_ON_HOST
        for _ in range(_MOST_NOTES):
            message: dict[str, Any] | None = None
            while message is None:
                with anyio.move_on_after(_WATCH_S):
                    message = await self._channel.receive()
                if message is None and self._leaves_too_little_memory():
                    self._reason = Fault.OUT_OF_HOST_MEMORY
                    self._process.kill()
            if message.get("type") != "note":
                return message
            at_device = message.get("at") == "device"
            self._waits_for = Fault.HANG_ON_DEVICE if at_device else Fault.HANG_ON_HOST
        raise frames.FrameError(f"over {_MOST_NOTES} notes before an answer")

    async def _why_it_hangs(self) -> Fault:
        """As far as it shows: a launch may wait for a kernel that does not end, too."""
        if is_stopped(self.pid):
            return Fault.STOPPED_ITSELF
        on_gpu = self.device is not None and self.device.kind == "cuda"
        if on_gpu and await gpu_is_busy(self.device.uuid if self.device else None):
            return Fault.HANG_ON_DEVICE
        return self._waits_for

    def _leaves_too_little_memory(self) -> bool:
        available = machine_memory.available_bytes()
        return available is not None and available < self._least_free_bytes

    @property
    def is_running(self) -> bool:
        """Whether it may still be asked."""
        return not self._closed and not self._process.has_ended

    def printed(self) -> str:
        """The end of what the process printed."""
        return self.output.text(_LAST_OUTPUT_BYTES)

    @property
    def output(self) -> OutputTail:
        """What it has printed."""
        return self._output.tail

    @property
    def pid(self) -> int:
        """Its process, or the guard of its box."""
        return self._process.pid

    async def aclose(self) -> None:
        """Kill it and all that it has started, and remove its folder. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._process.kill()
        with anyio.CancelScope(shield=True):
            self._code = await self._process.wait()
            # Whatever still prints is still alive: a GPU context takes a moment to go.
            with anyio.move_on_after(_GONE_S):
                await self._output.ended.wait()
        live_groups.discard(self._process.pid)
        self._channel.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _await_ready(self, settings: Settings) -> DeviceFacts:
        ready: dict[str, Any] = {}
        was_ended = False
        try:
            with anyio.move_on_after(settings.start_deadline_s):
                ready = await self._channel.receive()
        except (anyio.EndOfStream, ConnectionError, frames.FrameError):
            with anyio.move_on_after(_LAST_MOMENT_S):
                await self._process.wait()
            was_ended = self._process.has_ended
        finally:
            if ready.get("type") != "ready":
                await self.aclose()
        if ready.get("type") == "ready":
            return DeviceFacts.model_validate(ready["device"])
        if was_ended and (self._code is None or self._code < 0):
            raise self._death("start")
        error = ready.get("error", {})
        said = error.get("message") or self.printed().strip()[-500:]
        raise WorkerUnavailable(
            f"the {self.role} process did not come up under {str(settings.worker_python)!r}: "
            f"{said or 'it said nothing'}. `egg-mcp doctor` checks this; torch and triton come "
            "with `pip install 'egg-mcp[torch]'`, or name another Python with --worker-python."
        )

    def _death(self, phase: str) -> WorkerDied:
        code = self._code
        how = "its process is gone"
        if code is not None:
            how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        reason = self._reason.value if self._reason else ""
        text = f"the process ended during {phase} ({how})"
        if self._reason is Fault.OUT_OF_HOST_MEMORY:
            text = f"the machine ran out of memory during {phase}, and the process was killed"
        return WorkerDied(text, code, self.printed(), reason, self.role)
