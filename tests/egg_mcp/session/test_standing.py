from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from egg_mcp.session.standing import POOL_SIZE, Attempt, Standing, attempt_of, measurably_faster
from egg_mcp.testing import failing, passing
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.stage import SUBMITTING_STAGES, Stage
from egg_mcp.vocabulary.verdict import Timing, Verdict, VerdictStatus

SEEDS = range(150)
ABOUT_SOMETHING_ELSE = (
    VerdictStatus.INFRA_ERROR,
    VerdictStatus.INTERRUPTED,
    VerdictStatus.REFERENCE_FAILED,
    VerdictStatus.TASK_DEGENERATE,
    VerdictStatus.TASK_NONDETERMINISTIC,
)
AGAINST_IT = (
    VerdictStatus.WRONG,
    VerdictStatus.BUILD_FAILED,
    VerdictStatus.CRASHED,
    VerdictStatus.TIMED_OUT,
)


def _candidate(number: int, stage: Stage = Stage.DESIGN_ALGORITHM) -> Candidate:
    return Candidate(
        session_id="s",
        number=number,
        stage=stage,
        kernel_hash=str(number),
        parent=None,
        rationale="",
        guidelines_applied=(),
        created_at="now",
    )


def _standing(*verdicts: Verdict | None) -> Standing:
    return Standing(
        tuple(Attempt(_candidate(number), one) for number, one in enumerate(verdicts, 1))
    )


def _numbers(attempts: Sequence[Attempt]) -> list[int]:
    return [attempt.candidate.number for attempt in attempts]


def _timing(speedup: float | None, low: float | None = None, noise: float = 0.3) -> Timing:
    timing = passing(1.0).timing
    assert timing is not None
    return timing.model_copy(
        update={"speedup_vs_eager": speedup, "ci95_low": low, "noise_percent": noise}
    )


def _with(verdict: Verdict, **changes: object) -> Verdict:
    assert verdict.timing is not None
    return verdict.model_copy(update={"timing": verdict.timing.model_copy(update=changes)})


def _emulated() -> Verdict:
    return passing(1.0).model_copy(
        update={"status": VerdictStatus.EMULATED_PASS, "timing": None, "timing_reason": "no GPU"}
    )


def _any_verdict(draw: random.Random) -> Verdict | None:
    kind = draw.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return failing(draw.choice(AGAINST_IT))
    verdict = passing(draw.uniform(0.3, 4.0))
    if kind == 2:
        return _with(verdict, trust="untrusted", speedup_vs_eager=None, ci95_low=None)
    return _with(verdict, noise_percent=draw.choice([0.1, 1.0, 5.0, 30.0]))


def test_session_without_attempts_has_no_champion() -> None:
    assert Standing(()).champions == ()
    assert Standing(()).champion is None
    assert Standing(()).get(1) is None


def test_incumbent_keeps_its_place_in_a_tie() -> None:
    assert _numbers(_standing(passing(2.0), passing(2.02), passing(2.03)).champions) == [1, 2, 3]


def test_faster_newcomer_goes_first() -> None:
    assert _numbers(_standing(passing(2.0), passing(1.0), passing(3.0)).champions) == [3, 1, 2]


def test_newest_leads_where_nothing_is_timed() -> None:
    assert _numbers(_standing(_emulated(), failing(), _emulated()).champions) == [3, 1]


def test_timed_goes_before_untimed_whatever_came_first() -> None:
    untrusted = _with(passing(9.0), trust="untrusted")
    assert _numbers(_standing(untrusted, passing(0.5)).champions) == [2, 1]
    assert _numbers(_standing(passing(0.5), untrusted).champions) == [1, 2]


@pytest.mark.parametrize(
    ("new", "old", "faster"),
    [
        (_timing(1.5, 1.4), _timing(1.0, 0.9), True),
        (_timing(1.019, 1.018), _timing(1.0, 0.99), False),
        (_timing(1.5, 0.99), _timing(1.0, 0.9), False),
        (_timing(1.2, 1.1, noise=11.0), _timing(1.0, 0.9), False),
        (_timing(1.2, 1.1), _timing(1.0, 0.9, noise=11.0), False),
        (_timing(1.2, 1.1, noise=9.0), _timing(1.0, 0.9, noise=9.0), True),
        (_timing(None), _timing(1.0, 0.9), False),
        (_timing(1.5, 1.4), _timing(None), False),
        (_timing(1.5, None), _timing(1.0, 0.9), False),
    ],
)
def test_faster_means_beyond_least_gain_noise_and_interval(
    new: Timing, old: Timing, faster: bool
) -> None:
    assert measurably_faster(new, old) is faster


@pytest.mark.parametrize("status", ABOUT_SOMETHING_ELSE)
def test_verdict_about_something_else_leaves_the_last_one_standing(status: VerdictStatus) -> None:
    attempt = attempt_of(_candidate(1), [passing(2.0), failing(status)])
    assert attempt.is_correct
    assert attempt.speedup == 2.0
    assert attempt_of(_candidate(1), [failing(status)]).verdict is None


@pytest.mark.parametrize("status", AGAINST_IT)
def test_later_verdict_against_it_takes_a_candidate_out(status: VerdictStatus) -> None:
    assert not attempt_of(_candidate(1), [passing(2.0), failing(status)]).is_correct
    assert attempt_of(_candidate(1), [failing(status), passing(2.0)]).is_correct


@pytest.mark.parametrize("seed", SEEDS)
def test_pool_holds_correct_ones_only_and_its_head_never_gets_slower(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same sequences each time
    attempts: list[Attempt] = []
    before: Attempt | None = None
    for number in range(1, draw.randrange(2, 40)):
        stage = draw.choice(SUBMITTING_STAGES)
        attempts.append(Attempt(_candidate(number, stage), _any_verdict(draw)))
        standing = Standing(tuple(attempts))
        pool = standing.champions
        correct = [attempt for attempt in attempts if attempt.is_correct]
        assert len(pool) == min(POOL_SIZE, len(correct))
        assert len(set(_numbers(pool))) == len(pool)
        assert all(attempt in correct for attempt in pool)
        champion = standing.champion
        assert (champion is None) == (not correct)
        if before is not None and before.timing is not None:
            assert champion is not None
            assert champion.timing is not None
            assert not measurably_faster(before.timing, champion.timing)
            if champion is not before:
                assert measurably_faster(champion.timing, before.timing)
        before = champion
    of_stages = [Standing(tuple(attempts)).of_stage(stage) for stage in Stage]
    assert sum(map(len, of_stages)) == len(attempts)
