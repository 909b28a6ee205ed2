"""Every injected fault that this machine can have is called what it is, and the next job is right."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import Case
from benchmarks.fault_cases.everything import GROUPS
from benchmarks.faults import inject

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills processes seen in /proc")

CASES = [case for group in GROUPS.values() for case in group]


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as running:
        yield running


@pytest.fixture(scope="module")
def bench(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One executor for all of them: what a fault leaves behind, the next one meets."""
    folder: Path = tmp_path_factory.mktemp("faults")
    with portal.wrap_async_context_manager(Bench.open(folder, "emulated")) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault_is_called_what_it_is_and_the_next_job_is_right(
    case: Case, bench: Bench, portal: BlockingPortal
) -> None:
    line = portal.call(inject, case, bench)
    if line.skipped:
        pytest.skip(line.skipped)
    assert not line.wrong, f"{line}\n{line.outcome.text if line.outcome else ''}"


def test_there_are_enough_of_them() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100
