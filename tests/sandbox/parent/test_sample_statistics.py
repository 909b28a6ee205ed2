from __future__ import annotations

import math
import random

import pytest

from egg_mcp.sandbox.sample_statistics import (
    LEAST_EFFECT,
    PairedRatio,
    conclusion,
    paired_ratio,
    percentile,
)


def test_percentile_of_one_sample_is_that_sample() -> None:
    assert [percentile([4.0], share) for share in (0, 0.1, 0.5, 0.9, 1)] == [4.0] * 5


def test_percentile_is_a_sample_of_nearest_rank() -> None:
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(samples, share) for share in (0, 0.2, 0.21, 0.9, 1)] == [1, 1, 2, 5, 5]
    assert samples == [5.0, 1.0, 4.0, 2.0, 3.0]


def test_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(IndexError):
        percentile([], 0.5)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_few_rounds_give_their_whole_range(rounds: int) -> None:
    baseline = [2.0 + number for number in range(rounds)]
    pair = paired_ratio(baseline, [1.0] * rounds)
    assert math.isclose(pair.low, 2.0)
    assert math.isclose(pair.high, 1.0 + rounds)
    assert pair.low <= pair.ratio <= pair.high


def test_fifteen_rounds_leave_out_three_on_each_side() -> None:
    pair = paired_ratio([float(number) for number in range(1, 16)], [1.0] * 15)
    assert [round(value, 9) for value in (pair.low, pair.ratio, pair.high)] == [4.0, 8.0, 12.0]


@pytest.mark.parametrize("rounds", [6, 7, 8, 15, 30])
def test_interval_covers_the_median_in_at_least_95_percent(rounds: int) -> None:
    draw = random.Random(rounds)  # noqa: S311 - the same samples each time
    covered = 0
    for _ in range(1_000):
        baseline = [math.exp(draw.gauss(0.1, 0.2)) for _ in range(rounds)]
        pair = paired_ratio(baseline, [1.0] * rounds)
        covered += pair.low <= math.exp(0.1) <= pair.high
    assert covered >= 935  # 950 less two standard deviations


def test_exchanged_contenders_give_the_inverse() -> None:
    pair = paired_ratio([1.0, 2.0, 4.0], [3.0, 1.0, 1.0])
    inverse = paired_ratio([3.0, 1.0, 1.0], [1.0, 2.0, 4.0])
    assert math.isclose(pair.ratio, 1 / inverse.ratio)
    assert math.isclose(pair.low, 1 / inverse.high)


@pytest.mark.parametrize(
    ("baseline", "candidate", "error"),
    [
        ([1.0, 2.0], [1.0], ValueError),
        ([0.0], [1.0], ValueError),
        ([1.0], [0.0], ZeroDivisionError),
        ([-1.0], [1.0], ValueError),
    ],
)
def test_impossible_samples_are_an_error(
    baseline: list[float], candidate: list[float], error: type[Exception]
) -> None:
    with pytest.raises(error):
        paired_ratio(baseline, candidate)


@pytest.mark.parametrize(
    ("pair", "noise", "word"),
    [
        (PairedRatio(1.5, 1.4, 1.6), 0.0, "faster"),
        (PairedRatio(0.5, 0.4, 0.6), 0.0, "slower"),
        (PairedRatio(1.5, 1.0, 1.6), 0.0, "no measurable difference"),
        (PairedRatio(0.5, 0.4, 1.0), 0.0, "no measurable difference"),
        (PairedRatio(1 + LEAST_EFFECT, 1.01, 1.03), 0.0, "no measurable difference"),
        (PairedRatio(1.021, 1.01, 1.03), 0.0, "faster"),
        (PairedRatio(0.985, 0.98, 0.99), 0.0, "no measurable difference"),
        (PairedRatio(0.979, 0.97, 0.985), 0.0, "slower"),
        (PairedRatio(1.2, 1.1, 1.3), 0.11, "no measurable difference"),
        (PairedRatio(1.2, 1.1, 1.3), 0.09, "faster"),
        (PairedRatio(0.85, 0.8, 0.9), 0.1, "no measurable difference"),
        (PairedRatio(math.nan, math.nan, math.nan), 0.0, "no measurable difference"),
        (PairedRatio(1.5, 1.4, 1.6), math.inf, "no measurable difference"),
    ],
)
def test_conclusion_needs_interval_effect_and_noise_to_agree(
    pair: PairedRatio, noise: float, word: str
) -> None:
    assert conclusion(pair, noise) == word
