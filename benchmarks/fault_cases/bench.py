"""Bench: where faults are injected: an executor, and when a case needs it, a server."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.fault_cases.case import NOTHING, Outcome, unsaid_step
from benchmarks.fault_cases.client import StdioClient
from benchmarks.fault_cases.sources import HONEST, SUM
from benchmarks.fault_cases.subject import Subject
from egg_mcp.errors import SandboxError
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.sandbox.starting import StartLauncher, start_launcher
from egg_mcp.settings import Settings
from egg_mcp.tools.verdict_view import headline
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.verdict import Rigor

Report = Callable[[str], Awaitable[None]]

_TIGHT: dict[str, object] = {
    "build_deadline_s": 2.0,
    "first_call_deadline_s": 2.0,
    "trial_deadline_s": 2.0,
    "referee_deadline_s": 5.0,
    "start_deadline_s": 30.0,
    "max_host_memory_bytes": 2 << 30,
    "max_processes": 128,
    "max_open_files": 128,
    "max_file_bytes": 4 << 20,
    "max_disk_bytes": 8 << 20,
    "max_shared_memory_bytes": 8 << 20,
    "max_launches": 60,
}
"""Limits that no honest candidate here comes near and that every fault meets soon."""
_ON_GPU: dict[str, object] = {
    "build_deadline_s": 15.0,
    "first_call_deadline_s": 12.0,
    "trial_deadline_s": 6.0,
    "referee_deadline_s": 30.0,
    "max_host_memory_bytes": None,
    "max_processes": 1_024,
    "max_open_files": 1_024,
    "max_file_bytes": 256 << 20,
    "max_disk_bytes": 512 << 20,
    "max_shared_memory_bytes": 64 << 20,
}
"""A GPU's driver and compiler take more of everything."""

Device = Literal["cuda", "emulated"]


@dataclass(frozen=True, slots=True)
class Bench:
    """One executor and one server that most cases share, and ways to have another."""

    folder: Path
    device: Device
    shared: Subject
    has_box: bool
    _exit: contextlib.ExitStack
    _servers: list[StdioClient] = field(default_factory=list[StdioClient])

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, folder: Path, device: Device) -> AsyncGenerator[Bench]:
        """Until left: temporary files, and so the device's lock, are in this folder."""
        kept, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            with contextlib.ExitStack() as stack:
                async with Subject.open(_settings(folder, device)) as shared:
                    report = await shared.executor.sandbox()
                    yield cls(folder, device, shared, "limits" in report.layers, stack)
        finally:
            tempfile.tempdir = kept

    @contextlib.asynccontextmanager
    async def own(
        self, start: StartLauncher = start_launcher, **more: object
    ) -> AsyncGenerator[Subject]:
        """An executor of the case's own, with other settings."""
        async with Subject.open(_settings(self.folder, self.device, **more), start) as subject:
            yield subject

    def server(self) -> StdioClient:
        """A server with the same limits; started where none runs. Blocks."""
        if not self._servers or self._servers[-1].process.poll() is not None:
            state = self.folder / "server"
            opened = StdioClient.open(state, self.folder, **self.environment())
            self._servers.append(self._exit.enter_context(opened))
        return self._servers[-1]

    def environment(self) -> dict[str, str]:
        """The limits as a server takes them."""
        limits = {**_TIGHT, **(_ON_GPU if self.device == "cuda" else {}), "device": self.device}
        return {
            f"EGG_{name.upper()}": str(value) for name, value in limits.items() if value is not None
        }

    async def observe(
        self,
        subject: Subject,
        source: str,
        report: Report | None = None,
        problem: Problem = SUM,
    ) -> Outcome:
        """Have the source judged, then an honest one, and see what is left."""
        await warm(subject)
        zygote, referees = subject.zygote, subject.guards()
        got, text = await attempt(subject, source, report or quiet, problem)
        return await aftermath(subject, got, text, zygote, referees)


async def aftermath(
    subject: Subject, got: str, text: str, zygote: int = 0, referees: set[int] | None = None
) -> Outcome:
    """Judge an honest candidate after a fault, and see what had to be made again.

    Args:
        subject: where the fault was.
        got: what it was called.
        text: what was said.
        zygote: as it was before.
        referees: the guards that were idle before.
    """
    after, said = await attempt(subject, HONEST)
    passed = after.replace("emulated_pass", "pass") == "pass/-"
    lost = NOTHING
    if zygote and subject.zygote != zygote:
        lost = "the zygote: another was started"
    elif referees is not None and not referees & subject.guards():
        lost = "the warm reference: started again"
    wrong = [unsaid_step(got, text)]
    if len(left := subject.guards()) > _MOST_REFEREES:
        wrong.append(f"{len(left)} workers left")
    if not passed:
        text = f"{text}\nafter it: {after}: {said}"
    return Outcome(got, text, passed, lost, "; ".join(filter(None, wrong)))


_MOST_REFEREES = 2


async def warm(subject: Subject) -> None:
    """Have a reference's process that waits.

    Raises:
        SandboxError: there is none to be had.
    """
    if not subject.guards():
        await subject.executor.screen(SUM, quiet)


async def attempt(
    subject: Subject, source: str, report: Report | None = None, problem: Problem = SUM
) -> tuple[str, str]:
    """Status word and fault as a job would have them, and what its caller is told."""
    try:
        found = await evaluate(subject, source, report, problem)
    except SandboxError as error:
        return f"failed/{error.fault}", f"{error} {Fault(error.fault).next_step}"
    verdict = found.verdict
    text = "\n".join((headline(verdict, None), *verdict.flags))
    return f"{verdict.status.value}/{verdict.fault or '-'}", text


async def evaluate(
    subject: Subject, source: str, report: Report | None = None, problem: Problem = SUM
) -> Evaluation:
    """One candidate through the executor. Raises SandboxError."""
    return await subject.executor.evaluate(
        problem, source, PrecisionPolicy.STRICT, Rigor.QUICK, report or quiet
    )


async def quiet(_: str) -> None:
    """Takes progress and drops it."""


def _settings(folder: Path, kind: Device, **more: object) -> Settings:
    roomy = _ON_GPU if kind == "cuda" else {}
    values = {"state_dir": folder / "state", "workspace": folder, "device": kind}
    return Settings.model_validate(
        {**values, "worker_python": Path(sys.executable), **_TIGHT, **roomy, **more}
    )
