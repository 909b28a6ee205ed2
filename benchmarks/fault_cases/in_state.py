"""Faults of the state folder: its disk is full when a job ends, or when one is handed in."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

from benchmarks.fault_cases.bench import Bench, aftermath, quiet
from benchmarks.fault_cases.case import NOTHING, Case, Outcome
from benchmarks.fault_cases.sources import HONEST, SUM, candidate
from egg_mcp.errors import StateFull
from egg_mcp.service import Egg
from egg_mcp.service.source_input import SourceInput
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.tools.stage_report import job_report
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor

_MOST_PAGES = 1_000_000
_WAIT_S = 50.0
# What it prints is kept, too, and needs room.
_TALKS = candidate(forward="os.write(1, b'x' * 60_000)")


@contextlib.asynccontextmanager
async def _opened(bench: Bench) -> AsyncGenerator[Egg]:
    """The service over the shared executor, with a state of its own."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as state:
        settings = bench.shared.settings.model_copy(update={"state_dir": Path(state)})
        async with Egg.open(settings, bench.shared.executor, quiet) as egg:
            yield egg


@contextlib.contextmanager
def _full_disk(egg: Egg) -> Generator[None]:
    """Inside, the state file may not grow."""
    connection = egg.store.connection
    (pages,) = connection.row("PRAGMA page_count") or (1,)
    connection.rows(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        connection.rows(f"PRAGMA max_page_count = {_MOST_PAGES}")


def _judge(egg: Egg, kernel: str) -> Job:
    reference, source = SourceInput(SUM.source, "sum"), SourceInput(kernel, "kernel")
    return egg.docket.judge_alone(
        reference, source, PrecisionPolicy.STRICT, Rigor.QUICK, LOCAL_PRINCIPAL
    )


async def _beat(_number: float, _progress: str) -> None:
    """Nobody listens."""


async def _ended(egg: Egg, job: Job) -> Job:
    return await egg.jobs.wait(job.job_id, LOCAL_PRINCIPAL, _WAIT_S, _beat)


async def _full_at_the_end(bench: Bench) -> Outcome:
    """The disk fills up while a job runs; once there is room again, its verdict is there."""
    async with _opened(bench) as egg:
        started = _judge(egg, _TALKS)
        with _full_disk(egg):
            job = await _ended(egg, started)
            told = await job_report(egg, job, "concise")
        later = await _ended(egg, _judge(egg, _TALKS))
    verdict = later.verdict if later.job_id == started.job_id else None
    kept = verdict is not None and verdict.status.is_correct
    got = f"{job.status.value}/{job.fault or '-'}"
    outcome = await aftermath(bench.shared, got, f"{told.summary} {told.next_step}")
    lost = NOTHING if kept else "the verdict"
    return Outcome(got, outcome.text, outcome.next_passed, lost, outcome.wrong)


async def _full_at_the_door(bench: Bench) -> Outcome:
    """The disk is full when a kernel is handed in: refused, and what was there is there."""
    async with _opened(bench) as egg:
        first = await _ended(egg, _judge(egg, HONEST))
        said = "it was taken"
        with _full_disk(egg):
            try:
                _judge(egg, HONEST + "# x" * 100_000)
            except StateFull as error:
                said = str(error)
        kept = egg.jobs.get(first.job_id, LOCAL_PRINCIPAL) == first
        again = await _ended(egg, _judge(egg, HONEST + "# x" * 100_000))
    passed = again.verdict is not None and again.verdict.status.is_correct
    got = "refused/-" if said != "it was taken" else f"{said}/-"
    return Outcome(got, said, passed, NOTHING if kept else "the first verdict")


CASES = (
    Case("state-full-at-the-end-of-a-job", "failed/machine", _full_at_the_end, "kept in memory"),
    Case("state-full-when-handed-in", "refused/-", _full_at_the_door, "no space is left"),
)
