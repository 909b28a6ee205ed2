"""LocalExecutor: worker processes on this machine, one evaluation at a time, warm referees."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from egg_mcp.errors import SandboxError
from egg_mcp.executor.contract import Report
from egg_mcp.executor.lease import device_lease, lease_folder, visible_device
from egg_mcp.sandbox.evaluation import CandidateEvaluation, Evaluation
from egg_mcp.sandbox.referee import Referee
from egg_mcp.sandbox.worker_process import WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.verdict import Rigor, Verdict, VerdictStatus, unjudged

_MOST_REFEREES = 2
_IDLE_CHECK_S = 15.0


class LocalExecutor:
    """Use as an async context manager: leaving it ends every process it started."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = anyio.Lock()
        self._waiting = 0
        self._referees: dict[str, tuple[Referee, float]] = {}
        self._device: DeviceFacts | None = None
        self._task_group: anyio.abc.TaskGroup | None = None
        self._exit = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._task_group = await self._exit.enter_async_context(anyio.create_task_group())
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
        self._group.cancel_scope.cancel()
        # Not told of an exception in our body: the task group would wrap it in a group of one.
        await self._exit.__aexit__(None, None, None)

    @property
    def known_device(self) -> DeviceFacts | None:
        """What code runs on, when a worker has told already."""
        return self._device

    async def device(self) -> DeviceFacts:
        """What code will run on; starts one worker the first time. Raises WorkerUnavailable."""
        if self._device is None:
            worker = await WorkerProcess.start("referee", self._settings, self._group)
            self._device = worker.device
            await worker.aclose()
        if self._device is None:
            raise AssertionError("a worker that became ready has told its device")
        return self._device

    async def screen(self, problem: Problem, report: Report) -> Screening:
        """Run the reference by itself; when it is sound, its process stays warm."""
        async with self._device_turn(report):
            await report("running the reference")
            await self._drop(problem.problem_hash)
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
        """Judge one candidate against a warm referee, or a fresh one."""
        async with self._device_turn(report):
            referee = self._warm(problem.problem_hash)
            if referee is not None:
                try:
                    return await self._run(referee, kernel_source, policy, rigor, report)
                except SandboxError:
                    if referee.worker.is_running:
                        raise
                    # It had died while it was idle, or was killed: once more, with a fresh one.
                    await report("starting over: the reference's process had gone")
            await report("running the reference")
            referee, screening = await self._fresh_referee(problem)
            if screening.status != "ok":
                return Evaluation(_without_reference(screening, policy, rigor))
            return await self._run(referee, kernel_source, policy, rigor, report)

    async def _run(
        self,
        referee: Referee,
        kernel_source: str,
        policy: PrecisionPolicy,
        rigor: Rigor,
        report: Report,
    ) -> Evaluation:
        run = CandidateEvaluation(referee, self._settings, policy, rigor, report)
        try:
            return await run.run(kernel_source, self._group)
        finally:
            self._settle(referee)

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._task_group is None:
            raise RuntimeError("LocalExecutor is used inside `async with` only")
        return self._task_group

    @contextlib.asynccontextmanager
    async def _device_turn(self, report: Report) -> AsyncGenerator[None]:
        self._waiting += 1
        try:
            if self._turn.locked():
                await report(f"queued: {self._waiting - 1} before this one on the device")
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            async with device_lease(lease_folder(), visible_device(os.environ), report):
                yield
        finally:
            self._turn.release()

    async def _fresh_referee(self, problem: Problem) -> tuple[Referee, Screening]:
        while len(self._referees) >= _MOST_REFEREES:
            await self._drop(min(self._referees, key=lambda known: self._referees[known][1]))
        referee, screening = await Referee.start(problem, self._settings, self._group)
        self._device = referee.worker.device or self._device
        if referee.worker.is_running:
            self._referees[problem.problem_hash] = (referee, time.monotonic())
        return referee, screening

    def _warm(self, problem_hash: str) -> Referee | None:
        referee, _ = self._referees.get(problem_hash, (None, 0.0))
        return referee if referee is not None and referee.worker.is_running else None

    def _settle(self, referee: Referee) -> None:
        problem_hash = referee.problem.problem_hash
        if referee.worker.is_running:
            self._referees[problem_hash] = (referee, time.monotonic())
        else:
            self._referees.pop(problem_hash, None)

    async def _drop(self, problem_hash: str) -> None:
        referee, _ = self._referees.pop(problem_hash, (None, 0.0))
        if referee is not None:
            await referee.aclose()

    async def _end_idle_referees(self) -> None:
        while True:
            await anyio.sleep(_IDLE_CHECK_S)
            if self._turn.locked():
                continue
            limit = time.monotonic() - self._settings.referee_idle_s
            for problem_hash in [key for key, (_, used) in self._referees.items() if used < limit]:
                await self._drop(problem_hash)


def _without_reference(screening: Screening, policy: PrecisionPolicy, rigor: Rigor) -> Verdict:
    """No verdict on the candidate: the reference itself cannot be judged against."""
    if screening.status == "ok":
        raise SandboxError("an accepted reference was treated as refused")
    status = VerdictStatus(screening.status)
    return unjudged(status, screening.explanation, policy, rigor)
