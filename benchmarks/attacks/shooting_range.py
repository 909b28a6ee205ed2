"""ShootingRange: an executor, what is around it, and attacks run through it one by one (Linux)."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import select
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc

from benchmarks.attacks import outsiders
from benchmarks.attacks.aftermath import Aftermath
from benchmarks.attacks.attack import Attack
from benchmarks.attacks.canaries import Canaries
from benchmarks.attacks.scene import Scene
from benchmarks.attacks.secret import make_secret, secrets_in
from benchmarks.attacks.sight import Sight
from benchmarks.attacks.source import candidate, reference
from egg_mcp.errors import SandboxError
from egg_mcp.executor import LocalExecutor
from egg_mcp.executor.contract import Report
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.starting import start_launcher
from egg_mcp.sandbox.zygote import Zygote
from egg_mcp.settings import SandboxMode, Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.sandbox import SandboxReport
from egg_mcp.vocabulary.verdict import Rigor

_MOST_S = 120.0
_HARMED = ("zygote", "referee", "there is a new file", "the next honest")
"""How proofs begin after which zygote and referee are not as they were."""
_GONE_S = 3.0

Device = Literal["auto", "cuda", "emulated"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one attack.

    Attributes:
        proofs: what shows that it got through; none when it was stopped.
        said: what became of the candidate, and its own words, which prove nothing.
    """

    proofs: tuple[str, ...]
    said: str

    @property
    def succeeded(self) -> bool:
        """Whether it got through."""
        return bool(self.proofs)


@dataclass(slots=True)
class ShootingRange:
    """Attacks meet an executor with a warm referee. Comes from `open`."""

    settings: Settings
    canaries: Canaries
    executor: LocalExecutor
    problem: Problem
    launchers: list[Launcher] = field(default_factory=list[Launcher])
    is_sound: bool = False
    """Whether no attack has got through to the processes that are running now."""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncGenerator[ShootingRange]:
        """Until left. Temporary files, and so the device's lock, are among the canaries.

        Raises:
            SandboxRefused: there is no such box here.
        """
        canaries = Canaries.make()
        kept, tempfile.tempdir = tempfile.tempdir, str(canaries.temp)
        secret = make_secret("server")
        os.environ["EGG_ESCAPES_SECRET"] = secret
        folders = {"state_dir": canaries.folder("state"), "workspace": canaries.folder("workspace")}
        settings = settings.model_copy(update=folders)
        source = reference(make_secret("reference"))
        launchers: list[Launcher] = []

        async def start(wanted: Settings, task_group: anyio.abc.TaskGroup) -> Launcher:
            launchers.append(await start_launcher(wanted, task_group))
            return launchers[-1]

        try:
            async with LocalExecutor(settings, start) as executor:
                problem = Problem(problem_hash=content_hash(source), title="sum", source=source)
                await executor.device()
                yield cls(settings, canaries, executor, problem, launchers)
        finally:
            os.environ.pop("EGG_ESCAPES_SECRET", None)
            tempfile.tempdir = kept
            canaries.remove()

    async def report(self) -> SandboxReport:
        """What the box holds, as the sandbox itself has it."""
        return await self.executor.sandbox()

    async def device(self) -> DeviceFacts:
        """What code runs on."""
        return await self.executor.device()

    @property
    def zygote(self) -> int:
        """The running zygote's process; 0 when there is none."""
        living = [one for one in self.launchers if one.is_running]
        return next((one.pid for one in living if isinstance(one, Zygote)), 0)

    async def run(self, attack: Attack) -> Result:
        """Run it, then an honest candidate, and look what is outside of the box."""
        await self._warm()
        guards = outsiders.children(self.zygote)
        referees = outsiders.trees(guards)
        named = {f"referee {number}": pid for number, pid in enumerate(referees)}
        scene = Scene.open(self.canaries, {"zygote": self.zygote, **named})
        try:
            result = await self._run(attack, scene, guards, referees)
            self.is_sound = not any(one.startswith(_HARMED) for one in result.proofs)
            return result
        finally:
            end_marked(scene.label)
            scene.close()

    async def _run(
        self, attack: Attack, scene: Scene, guards: list[int], referees: list[int]
    ) -> Result:
        zygote, note = self.zygote, secrets.token_hex(12)
        world = scene.world(self.settings, note, zygote, referees)
        seen: list[str] = []

        async def look(step: str) -> None:
            if attack.during and step.startswith(("trial 1 of", "trial 2 of")):
                seen.append(attack.during(Sight(_box(zygote, guards), world)))

        swelled, files = _peak_bytes(), _own_files()
        found, raised = await self._evaluate(
            candidate(world, attack.code, attack.place, attack.result), look
        )
        swelled = _peak_bytes() - swelled
        new_files = tuple(sorted(_own_files() - files))
        alive = survivors(scene.label)
        proofs = [*seen, *scene.traces()]
        honest = candidate({**world, "note": ""}, attack.next_code)
        after, after_raised = await self._evaluate(honest, _quiet)
        text = _all_text(found, raised)
        proofs += [f"the secret of the {whose} came out" for whose in secrets_in(text)]
        proofs += [f"process {pid} outlived its box" for pid in alive[:1]]
        next_text = _all_text(after, after_raised)
        if note in next_text:
            proofs.append("the next candidate found what it had planted")
        if after is None or not after.verdict.status.is_correct:
            why = after_raised if after is None else after.verdict.explanation
            proofs.append(f"the next honest candidate did not pass: {why[:200]}")
        if attack.after is not None:
            left = Aftermath(
                None if found is None else found.verdict,
                raised,
                "" if found is None else found.printed,
                next_text,
                swelled,
                new_files,
                world,
            )
            proofs.append(attack.after(left))
        return Result(tuple(dict.fromkeys(filter(None, proofs))), _said(found, raised))

    async def _warm(self) -> None:
        """Have a reference's process that waits; a fresh one after an attack that got through."""
        if self.is_sound and self.zygote and outsiders.children(self.zygote):
            return
        if await self._screens():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.zygote, signal.SIGKILL) if self.zygote else None
        if not await self._screens():
            raise SandboxError("after an attack not even a fresh zygote judges a reference")

    async def _screens(self) -> bool:
        with contextlib.suppress(SandboxError):
            screening = await self.executor.screen(self.problem, _quiet)
            return screening.status == "ok"
        return False

    async def _evaluate(self, source: str, report: Report) -> tuple[Evaluation | None, str]:
        try:
            with anyio.fail_after(_MOST_S):
                found = await self.executor.evaluate(
                    self.problem, source, PrecisionPolicy.STRICT, Rigor.QUICK, report
                )
        except (SandboxError, TimeoutError) as error:
            return None, f"{type(error).__name__}: {error}"
        return found, ""


def tight_settings(sandbox: SandboxMode, device: Device, *, on_gpu: bool = False) -> Settings:
    """Limits that no honest candidate here comes near; a GPU's driver takes more of everything."""
    values: dict[str, object] = {
        "sandbox": sandbox,
        "device": device,
        "worker_python": Path(sys.executable),
        "build_deadline_s": 60 if on_gpu else 20,
        "first_call_deadline_s": 30 if on_gpu else 4,
        "trial_deadline_s": 30 if on_gpu else 4,
        "referee_deadline_s": 60 if on_gpu else 8,
        "max_host_memory_bytes": None if on_gpu else 2 << 30,
        "max_processes": 1_024 if on_gpu else 128,
        "max_open_files": 1_024 if on_gpu else 256,
        "max_file_bytes": (256 if on_gpu else 16) << 20,
        "max_disk_bytes": (512 if on_gpu else 32) << 20,
        "max_shared_memory_bytes": (64 if on_gpu else 16) << 20,
    }
    return Settings.model_validate(values)


def survivors(label: str) -> list[int]:
    """Processes with the label that do not end within some seconds, all together."""
    left: list[int] = []
    until = time.monotonic() + _GONE_S
    for pid in outsiders.marked(label):
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                if not poll.poll(max(0.0, until - time.monotonic()) * 1_000):
                    left.append(pid)
            finally:
                os.close(handle)
    return left


def end_marked(label: str) -> None:
    """Kill what an attack has left running."""
    for pid in outsiders.marked(label):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _box(zygote: int, guards: list[int]) -> tuple[int, ...]:
    new = [pid for pid in outsiders.children(zygote) if pid not in guards]
    return tuple(outsiders.trees(new))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _own_files() -> set[str]:
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(entry))  # noqa: PTH115 - text
    return found


def _all_text(found: Evaluation | None, raised: str) -> str:
    if found is None:
        return raised
    return f"{found.verdict.model_dump_json()}\n{found.printed}\n{found.asm}"


def _said(found: Evaluation | None, raised: str) -> str:
    if found is None:
        return raised[:160]
    verdict = found.verdict
    lines = [line for line in found.printed.splitlines() if line.startswith("failed: ")]
    word = f"{verdict.status.value}/{verdict.fault}" if verdict.fault else verdict.status.value
    return f"{word}; {lines[0][8:][:100]}" if lines else word


async def _quiet(_: str) -> None:
    """Takes progress and drops it."""
