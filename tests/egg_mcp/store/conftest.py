from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egg_mcp.store import Store
from egg_mcp.vocabulary.job import Job, JobStatus
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import (
    ContenderTime,
    Mismatch,
    Rigor,
    Timing,
    Trial,
    Verdict,
    VerdictStatus,
)

REFERENCE = "class Model:\n    pass\n"
PROBLEM = Problem(problem_hash=content_hash(REFERENCE), title="Model", source=REFERENCE)


def _session(
    session_id: str, principal: str = "local", created_at: str = "2026-12-01T10:00:00.000+00:00"
) -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        principal=principal,
        problem_hash=PROBLEM.problem_hash,
        title="Model",
        precision=PrecisionPolicy.STRICT,
        created_at=created_at,
    )


def _job(job_id: str, *, key: str = "key", session_id: str | None = None) -> Job:
    return Job(
        job_id=job_id,
        kind="evaluate",
        key=key,
        status=JobStatus.RUNNING,
        stage=Stage.DESIGN_ALGORITHM,
        session_id=session_id,
        principal="local",
        problem_hash=PROBLEM.problem_hash,
        created_at="2026-12-01T10:00:00.000+00:00",
    )


@pytest.fixture
def problem() -> Problem:
    return PROBLEM


@pytest.fixture
def new_session() -> Callable[..., SessionRecord]:
    return _session


@pytest.fixture
def new_job() -> Callable[..., Job]:
    return _job


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(state_dir: Path) -> Iterator[Store]:
    """A store with one Problem and the session `one`."""
    with Store.open(state_dir) as opened:
        opened.problems.put(PROBLEM)
        opened.sessions.create(_session("one"))
        yield opened


@pytest.fixture
def add_candidate(store: Store) -> Callable[[str], int]:
    """Adds a source to the session `one`; its number."""

    def add(source: str) -> int:
        candidate, _ = store.candidates.add(
            "one", Stage.DESIGN_ALGORITHM, source, None, "because", ("g1", "g2")
        )
        return candidate.number

    return add


@pytest.fixture
def timed_verdict() -> Verdict:
    """A verdict with everything in it that is hard to keep."""
    timing = Timing(
        trust="trusted",
        trust_reason="clocks agree",
        contenders=(
            ContenderTime(
                name="candidate", median_ms=0.5, p10_ms=0.4, p90_ms=0.6, wall_median_ms=1
            ),
        ),
        speedup_vs_eager=2.0,
        ci95_low=1.9,
        ci95_high=2.1,
        noise_percent=float("inf"),
        conclusion="faster",
        rounds=2,
        input_sets=3,
        samples_ms={"candidate": ((0.5, 0.51), (0.49, 0.5)), "eager": ((1.0,), (1.01,))},
    )
    return Verdict(
        status=VerdictStatus.PASS,
        explanation="right, 2.0 times as fast as eager",
        rigor=Rigor.QUICK,
        precision_policy=PrecisionPolicy.STRICT,
        trials=(
            Trial(
                kind="zero_mean",
                seed=2**63,
                passed=True,
                mismatches=(Mismatch(output="outputs[0]", what="none", index=(1, 2)),),
            ),
        ),
        timing=timing,
        output_tail="half a pair: \ud83d and \x00 and é",
    )
