"""Executor: what the service asks of whatever runs code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.verdict import Rigor

Report = Callable[[str], Awaitable[None]]
"""Takes one line on what is being done now."""


class Executor(Protocol):
    """Runs references and candidates, one evaluation at a time on each device."""

    @property
    def known_device(self) -> DeviceFacts | None:
        """What code runs on, when that is known already."""
        ...

    async def device(self) -> DeviceFacts:
        """What code will run on; asks the worker side the first time.

        Raises:
            WorkerUnavailable: the worker side cannot run here.
        """
        ...

    async def screen(self, problem: Problem, report: Report) -> Screening:
        """Run the reference by itself.

        Raises:
            SandboxError: the machine failed.
        """
        ...

    async def evaluate(
        self,
        problem: Problem,
        kernel_source: str,
        policy: PrecisionPolicy,
        rigor: Rigor,
        report: Report,
    ) -> Evaluation:
        """Judge one candidate.

        Raises:
            SandboxError: the machine failed; nothing is said about the candidate.
        """
        ...
