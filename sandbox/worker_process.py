"""WorkerProcess: one worker, its process group, its channel, its deadlines."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

import anyio
import anyio.abc

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut, WorkerUnavailable
from egg_mcp.sandbox import frames, live_groups
from egg_mcp.sandbox.output_tail import OutputTail
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts

Role = Literal["referee", "candidate"]

_LAUNCH = Path(__file__).resolve().parent / "worker" / "launch.py"
_CHUNK_BYTES = 1 << 18
_LAST_OUTPUT_BYTES = 2_000
_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "CC"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBCUDA_PATH"),
)


class UserCodeError(Exception):
    """The worker lives, but the user's code in it did not do what was asked.

    Attributes:
        kind: `syntax`, `import`, `missing`, `exception`, `exit`, `out_of_memory` and so on.
        phase: where: `import`, `construct`, `forward`.
        message: the last line of the exception first.
        traceback: frames of the user's file.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.kind = str(error.get("kind", "exception"))
        self.phase = str(error.get("phase", ""))
        self.message = str(error.get("message", ""))[:2_000]
        self.traceback = str(error.get("traceback", ""))[:6_000]
        super().__init__(self.message)


@dataclass(slots=True)
class _Channel:
    """The parent's end of the socket pair."""

    sock: socket.socket

    async def send(self, data: bytes, fds: Sequence[int]) -> None:
        view = memoryview(data)
        while view:
            await anyio.wait_writable(self.sock)
            try:
                sent = socket.send_fds(self.sock, [view], fds) if fds else self.sock.send(view)
            except BlockingIOError:
                continue
            fds = ()
            view = view[sent:]

    async def receive(self) -> dict[str, Any]:
        length = frames.body_length(await self._exactly(frames.HEADER.size))
        return frames.decode(await self._exactly(length))

    async def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            await anyio.wait_readable(self.sock)
            try:
                part = self.sock.recv(min(count, _CHUNK_BYTES))
            except BlockingIOError:
                continue
            if not part:
                raise anyio.EndOfStream
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class WorkerProcess:
    """A running worker. One request at a time; any failure to answer ends it for good."""

    def __init__(
        self,
        role: Role,
        process: anyio.abc.Process,
        channel: socket.socket,
        folder: Path,
        output: OutputTail,
    ) -> None:
        self.role: Role = role
        self.folder = folder
        self.output = output
        self.device: DeviceFacts | None = None
        self._process = process
        self._channel = _Channel(channel)
        self._closed = False

    @classmethod
    async def start(cls, role: Role, settings: Settings, task_group: anyio.abc.TaskGroup) -> Self:
        """Start a worker and wait until it is ready.

        Args:
            role: what it may be asked.
            settings: its Python, device and deadlines.
            task_group: reads what the worker prints for as long as it lives.

        Raises:
            WorkerUnavailable: no torch there, no such device, or not ready in time.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        folder = Path(tempfile.mkdtemp(prefix=f"egg-{role}-"))
        command = [
            *(str(settings.worker_python), "-P", str(_LAUNCH)),
            *("--role", role, "--socket", str(theirs.fileno())),
            *("--parent", str(os.getpid()), "--device", settings.device),
        ]
        try:
            # From the event loop's own thread: the parent-death signal follows the thread
            # that forked, so a helper thread's end would kill the worker.
            process = await anyio.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=_environment(folder),
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        except OSError as error:
            ours.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise WorkerUnavailable(
                f"cannot start {str(settings.worker_python)!r}: {error}. Name a Python that has "
                "torch and triton with --worker-python or EGG_WORKER_PYTHON."
            ) from error
        finally:
            theirs.close()
        live_groups.add(process.pid, folder)
        worker = cls(role, process, ours, folder, OutputTail(settings.max_output_bytes))
        task_group.start_soon(worker._drain)
        await worker._await_ready(settings)
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
        try:
            with anyio.fail_after(deadline_s):
                await self._channel.send(frames.encode(request), fds)
                reply = await self._channel.receive()
            answered = True
        except TimeoutError:
            await self.aclose()
            raise WorkerTimedOut(phase, deadline_s, self.printed()) from None
        except (anyio.EndOfStream, ConnectionError):
            await self.aclose()
            raise self._death(phase) from None
        except frames.FrameError as error:
            await self.aclose()
            raise ProtocolError(f"{self.role} during {phase}: {error}") from error
        finally:
            # Cancelled in the middle: the reply will come to nobody, so the worker must go.
            if not answered:
                await self.aclose()
        if reply.get("ok") is True:
            return reply
        error: object = reply.get("error")
        if isinstance(error, dict):
            raise UserCodeError(cast("dict[str, Any]", error))
        raise UserCodeError({"message": repr(reply)[:500]})

    @property
    def is_running(self) -> bool:
        """Whether it may still be asked."""
        return not self._closed and self._process.returncode is None

    def printed(self) -> str:
        """The end of what the process printed."""
        return self.output.text(_LAST_OUTPUT_BYTES)

    async def aclose(self) -> None:
        """Kill the process group, reap the worker, remove its folder. May be called again."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await self._process.wait()
        # Once more: a fork that raced the first signal is in the group, too.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        live_groups.discard(self._process.pid)
        self._channel.sock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _await_ready(self, settings: Settings) -> None:
        ready: dict[str, Any] = {}
        try:
            with anyio.move_on_after(settings.start_deadline_s):
                ready = await self._channel.receive()
        except (anyio.EndOfStream, ConnectionError, frames.FrameError):
            ready = {}
        finally:
            if ready.get("type") != "ready":
                await self.aclose()
        if ready.get("type") == "ready":
            self.device = DeviceFacts.model_validate(ready["device"])
            return
        said = ready.get("error", {}).get("message") or self.printed().strip()[-500:]
        raise WorkerUnavailable(
            f"the {self.role} process did not come up under {str(settings.worker_python)!r}: "
            f"{said or 'it said nothing'}. `egg-mcp doctor` checks this; torch and triton come "
            "with `pip install 'egg-mcp[torch]'`, or name another Python with --worker-python."
        )

    def _death(self, phase: str) -> WorkerDied:
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        return WorkerDied(f"the process ended during {phase} ({how})", code, self.printed())

    async def _drain(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, OSError):
            while True:
                self.output.feed(await stream.receive(_CHUNK_BYTES))
        with contextlib.suppress(OSError):
            await stream.aclose()


def _environment(folder: Path) -> dict[str, str]:
    """A cleared environment: what CUDA and Triton need, and caches nobody else has."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        "LANG": "C.UTF-8",
        **kept,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
