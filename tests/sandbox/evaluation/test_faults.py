"""What an executor leaves behind, and a Python that cannot work. Injected faults: tests/benchmarks."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from egg_mcp.errors import WorkerDied, WorkerUnavailable
from egg_mcp.executor import LocalExecutor
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from tests.sandbox.evaluation.judging import judge, problem, quiet, settings, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


async def passes(executor: LocalExecutor) -> bool:
    """Whether an honest candidate is judged right now."""
    verdict = (await judge(executor, "good_add", "add_right")).verdict
    return verdict.status.value == "emulated_pass"


def test_after_a_reference_that_was_killed_the_device_is_checked_first(tmp_path: Path) -> None:
    source = "import os\n\nos.kill(os.getpid(), 9)\n"
    killed = Problem(problem_hash=content_hash(source), title="killed", source=source)
    said: list[str] = []

    async def listen(line: str) -> None:
        said.append(line)

    async def run() -> None:
        async with LocalExecutor(settings(tmp_path)) as executor:
            with pytest.raises(WorkerDied):
                await executor.screen(killed, quiet)
            await executor.screen(problem("good_add"), listen)

    anyio.run(run)

    assert said[0] == "checking the device after a fault"


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
