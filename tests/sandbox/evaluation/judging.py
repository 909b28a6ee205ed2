"""Judging: fixtures through the real executor, emulated."""

from __future__ import annotations

import contextlib
from pathlib import Path

from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.verdict import Rigor

FIXTURES = Path(__file__).parents[2] / "fixtures"


def text(kind: str, name: str) -> str:
    """A fixture's source."""
    return (FIXTURES / kind / f"{name}.py").read_text(encoding="utf-8")


def problem(name: str) -> Problem:
    """A reference fixture as a Problem."""
    source = text("references", name)
    return Problem(problem_hash=content_hash(source), title=name, source=source)


def settings(state_dir: Path, **more: object) -> Settings:
    """Emulated, with deadlines that end a hang soon and nothing honest."""
    return Settings.model_validate(
        {
            "state_dir": state_dir,
            "device": "emulated",
            "first_call_deadline_s": 12,
            "trial_deadline_s": 12,
            "referee_deadline_s": 12,
            **more,
        }
    )


async def quiet(_: str) -> None:
    """Takes progress and drops it."""


async def judge(
    executor: LocalExecutor,
    reference: str,
    candidate: str,
    policy: PrecisionPolicy = PrecisionPolicy.STRICT,
    rigor: Rigor = Rigor.QUICK,
) -> Evaluation:
    """One candidate fixture against one reference fixture."""
    source = text("candidates", candidate)
    return await executor.evaluate(problem(reference), source, policy, rigor, quiet)


async def screen(executor: LocalExecutor, reference: str) -> Screening:
    """One reference fixture by itself."""
    return await executor.screen(problem(reference), quiet)


def workers_of(server_pid: int) -> list[int]:
    """Processes started as workers of that process, wherever they hang in the tree now (Linux)."""
    mark = f"--parent\0{server_pid}\0"
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes().decode("utf-8", "replace"):
                found.append(int(entry.name))
    return found
