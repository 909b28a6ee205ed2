"""LocalExecutor: worker processes on this machine, one evaluation at a time, warm referees."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from egg_mcp.errors import SandboxError, WorkerDied, ZygoteDied
from egg_mcp.executor.contract import Report
from egg_mcp.executor.device_host import DeviceHost
from egg_mcp.executor.meanwhile import Meanwhile
from egg_mcp.sandbox.compile_ahead import CompiledAhead, compile_ahead
from egg_mcp.sandbox.evaluation import CandidateEvaluation, Evaluation
from egg_mcp.sandbox.referee import Referee
from egg_mcp.sandbox.starting import StartLauncher, start_launcher
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.sandbox import SandboxReport
from egg_mcp.vocabulary.verdict import Rigor, Verdict, VerdictStatus, unjudged

_MOST_REFEREES = 2
_IDLE_CHECK_S = 15.0
_CORES_PER_COMPILER = 4


@dataclass(frozen=True, slots=True)
class _Submission:
    """What is to be judged, and how."""

    problem: Problem
    kernel_source: str
    policy: PrecisionPolicy
    rigor: Rigor
    report: Report


class LocalExecutor:
    """Use as an async context manager: leaving it ends every process it started."""

    def __init__(self, settings: Settings, start_launcher: StartLauncher = start_launcher) -> None:
        self._settings = settings
        self._start_launcher = start_launcher
        self._referees: dict[str, tuple[Referee, float]] = {}
        self._compilers = anyio.CapacityLimiter(
            max(1, (os.cpu_count() or 1) // _CORES_PER_COMPILER)
        )
        self._task_group: anyio.abc.TaskGroup | None = None
        self._device_host: DeviceHost | None = None
        self._exit = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._task_group = await self._exit.enter_async_context(anyio.create_task_group())
        self._device_host = DeviceHost(self._settings, self._start_launcher, self._task_group)
        self._task_group.start_soon(self._end_idle_referees)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del exc_type, exc, traceback
        with anyio.CancelScope(shield=True):
            for problem_hash in list(self._referees):
                await self._drop(problem_hash)
            await self._host.aclose()
        self._group.cancel_scope.cancel()
        # Not told of an exception in our body: the task group would wrap it in a group of one.
        await self._exit.__aexit__(None, None, None)

    @property
    def known_device(self) -> DeviceFacts | None:
        """What code runs on, when a worker has told already."""
        return self._host.known_device

    async def device(self) -> DeviceFacts:
        """What code will run on; starts a zygote the first time. Raises WorkerUnavailable."""
        return (await self._host.launcher()).device

    async def sandbox(self) -> SandboxReport:
        """What stands between code that runs and this machine. Raises WorkerUnavailable."""
        return (await self._host.launcher()).sandbox

    async def screen(self, problem: Problem, report: Report) -> Screening:
        """Run the reference by itself; when it is sound, its process stays warm."""
        async with self._host.turn(report):
            await report("running the reference")
            _, screening = await self._fresh_referee(problem)
            return screening

    async def evaluate(
        self,
        problem: Problem,
        kernel_source: str,
        policy: PrecisionPolicy,
        rigor: Rigor,
        report: Report,
    ) -> Evaluation:
        """Judge one candidate against a warm referee, or a fresh one.

        While others have the device its kernels are compiled. A run that a SIGKILL ended which
        this server did not send is made once more: it may have come from outside. Twice is the
        candidate's own doing.
        """
        work = _Submission(problem, kernel_source, policy, rigor, report)
        ahead = Meanwhile(partial(self._compile, work), self._group)
        try:
            async with self._host.turn(report, ahead.start):
                compiled = await ahead.result()
                found = await self._judge(work, compiled)
                if found.verdict.fault is Fault.KILLED:
                    await report("starting over: the candidate's process was killed from outside")
                    found = _after_a_kill(await self._judge(work, compiled))
                return found
        finally:
            await ahead.aclose()

    async def _compile(self, work: _Submission) -> CompiledAhead | None:
        referee = self._warm(work.problem.problem_hash)
        if referee is None:
            return None
        async with self._compilers:
            launcher = await self._host.launcher()
            return await compile_ahead(launcher, self._settings, work.kernel_source, referee.forms)

    async def _judge(self, work: _Submission, compiled: CompiledAhead | None) -> Evaluation:
        referee = self._warm(work.problem.problem_hash)
        if referee is not None:
            try:
                return await self._run(referee, work, compiled)
            except SandboxError:
                if self._host.is_running and referee.worker.is_running:
                    raise
                # It had died while it was idle, or was killed: once more, with a fresh one.
                await work.report("starting over: the reference's process had gone")
        await work.report("running the reference")
        referee, screening = await self._fresh_referee(work.problem)
        if screening.status != "ok":
            return Evaluation(_without_reference(screening, work.policy, work.rigor))
        return await self._run(referee, work, compiled)

    async def _run(
        self, referee: Referee, work: _Submission, compiled: CompiledAhead | None
    ) -> Evaluation:
        launcher = await self._host.launcher()
        run = CandidateEvaluation(
            referee, launcher, self._settings, work.policy, work.rigor, work.report
        )
        # Until it has ended well: also when it is cancelled, or the sandbox fails.
        self._host.is_suspect = True
        try:
            found = await run.run(work.kernel_source, compiled)
            self._host.is_suspect = found.verdict.fault not in (None, Fault.RAISED)
            return found
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(referee)

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._task_group is None:
            raise RuntimeError("LocalExecutor is used inside `async with` only")
        return self._task_group

    @property
    def _host(self) -> DeviceHost:
        if self._device_host is None:
            raise RuntimeError("LocalExecutor is used inside `async with` only")
        return self._device_host

    async def _fresh_referee(self, problem: Problem) -> tuple[Referee, Screening]:
        await self._drop(problem.problem_hash)
        while len(self._referees) >= _MOST_REFEREES:
            await self._drop(min(self._referees, key=lambda known: self._referees[known][1]))
        launcher = await self._host.launcher()
        # Until it has ended well: also when it is cancelled, or killed.
        self._host.is_suspect = True
        try:
            referee, screening = await Referee.start(problem, launcher, self._settings)
        except WorkerDied as error:
            if not launcher.is_running:
                raise ZygoteDied("the zygote died, and every worker with it") from error
            raise
        self._host.is_suspect = screening.status == "reference_failed"
        if referee.worker.is_running:
            self._referees[problem.problem_hash] = (referee, time.monotonic())
        return referee, screening

    def _warm(self, problem_hash: str) -> Referee | None:
        referee, _ = self._referees.get(problem_hash, (None, 0.0))
        return referee if referee is not None and referee.worker.is_running else None

    async def _settle(self, referee: Referee) -> None:
        problem_hash = referee.problem.problem_hash
        if referee.worker.is_running:
            self._referees[problem_hash] = (referee, time.monotonic())
        else:
            self._referees.pop(problem_hash, None)
            await referee.aclose()

    async def _drop(self, problem_hash: str) -> None:
        referee, _ = self._referees.pop(problem_hash, (None, 0.0))
        if referee is not None:
            await referee.aclose()

    async def _end_idle_referees(self) -> None:
        while True:
            await anyio.sleep(_IDLE_CHECK_S)
            if self._host.is_busy:
                continue
            limit = time.monotonic() - self._settings.referee_idle_s
            for problem_hash in [key for key, (_, used) in self._referees.items() if used < limit]:
                await self._drop(problem_hash)


def _after_a_kill(found: Evaluation) -> Evaluation:
    if found.verdict.fault is Fault.KILLED:
        return found
    flags = (*found.verdict.flags, "a first run was killed from outside; this is the second")
    return replace(found, verdict=found.verdict.model_copy(update={"flags": flags}))


def _without_reference(screening: Screening, policy: PrecisionPolicy, rigor: Rigor) -> Verdict:
    """No verdict on the candidate: the reference itself cannot be judged against."""
    if screening.status == "ok":
        raise SandboxError("an accepted reference was treated as refused")
    status = VerdictStatus(screening.status)
    return unjudged(status, screening.explanation, policy, rigor)
