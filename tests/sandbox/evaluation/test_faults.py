"""What goes wrong around a candidate is not the candidate's, and the next one is judged right."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from egg_mcp.errors import SandboxError, WorkerUnavailable
from egg_mcp.executor import LocalExecutor
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor
from tests.sandbox.evaluation.judging import judge, problem, screen, settings, text, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


async def passes(executor: LocalExecutor) -> bool:
    """Whether an honest candidate is judged right now."""
    verdict = (await judge(executor, "good_add", "add_right")).verdict
    return verdict.status.value == "emulated_pass"


def kill_referees() -> None:
    for worker in workers_of(os.getpid()):
        if b"referee" in Path(f"/proc/{worker}/cmdline").read_bytes():
            os.kill(worker, signal.SIGKILL)


def test_a_referee_killed_between_evaluations_is_started_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            await screen(executor, "good_add")
            (referee,) = workers_of(os.getpid())
            os.kill(referee, signal.SIGKILL)
            assert await passes(executor)

    anyio.run(run)


def test_a_referee_killed_in_the_middle_is_not_the_candidates_fault(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            await screen(executor, "good_add")
            said: list[str] = []

            async def kill_once(line: str) -> None:
                said.append(line)
                if line.startswith("trial 2") and not any("over" in one for one in said):
                    kill_referees()

            evaluation = await executor.evaluate(
                problem("good_add"),
                text("candidates", "add_right"),
                PrecisionPolicy.STRICT,
                Rigor.QUICK,
                kill_once,
            )
            assert any("starting over" in line for line in said)
            assert evaluation.verdict.status.value == "emulated_pass"

    anyio.run(run)


def test_a_fresh_referee_that_is_killed_fails_the_job_and_not_the_candidate(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:

            async def kill_the_referee(line: str) -> None:
                if line.startswith("trial 2"):
                    kill_referees()

            with pytest.raises(SandboxError):
                await executor.evaluate(
                    problem("good_add"),
                    text("candidates", "add_right"),
                    PrecisionPolicy.STRICT,
                    Rigor.QUICK,
                    kill_the_referee,
                )
            assert await passes(executor)

    anyio.run(run)


def test_a_candidate_killed_from_outside_has_crashed(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            await screen(executor, "good_add")
            (referee,) = workers_of(os.getpid())

            async def kill_the_candidate(line: str) -> None:
                if line.startswith("trial 2"):
                    (candidate,) = set(workers_of(os.getpid())) - {referee}
                    os.kill(candidate, signal.SIGKILL)

            evaluation = await executor.evaluate(
                problem("good_add"),
                text("candidates", "add_right"),
                PrecisionPolicy.STRICT,
                Rigor.QUICK,
                kill_the_candidate,
            )
            assert evaluation.verdict.status.value == "crashed"
            assert "SIGKILL" in evaluation.verdict.explanation
            assert await passes(executor)

    anyio.run(run)


def test_a_cancelled_evaluation_leaves_no_candidate_and_the_next_is_right(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            await screen(executor, "good_add")
            (referee,) = workers_of(os.getpid())
            async with anyio.create_task_group() as task_group:

                async def cancel_in_the_first_call(line: str) -> None:
                    if line.startswith("trial 1"):
                        task_group.cancel_scope.cancel()

                task_group.start_soon(
                    executor.evaluate,
                    problem("good_add"),
                    text("candidates", "hangs"),
                    PrecisionPolicy.STRICT,
                    Rigor.QUICK,
                    cancel_in_the_first_call,
                )
            assert set(workers_of(os.getpid())) <= {referee}
            assert await passes(executor)

    anyio.run(run)


def test_nothing_is_left_of_an_executor(tmp_path: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("egg-*"))

    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            assert await passes(executor)

    anyio.run(run)

    assert workers_of(os.getpid()) == []
    left = set(Path(tempfile.gettempdir()).glob("egg-*")) - before
    assert [path for path in left if "locks" not in path.name] == []


@pytest.mark.parametrize("python", ["/nonexistent/python", "no torch"])
def test_a_python_that_cannot_work_is_said_with_the_way_out(tmp_path: Path, python: str) -> None:
    if python == "no torch":
        # The same interpreter, kept from its packages.
        script = tmp_path / "python"
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n',
            encoding="utf-8",
        )
        script.chmod(0o755)
        python = str(script)

    async def run() -> str:
        async with LocalExecutor(settings(tmp_path, worker_python=python)) as executor:
            with pytest.raises(WorkerUnavailable) as caught:
                await executor.device()
            return str(caught.value)

    said = anyio.run(run)

    assert python in said
    assert "--worker-python" in said
