"""From raw samples to a ratio with an interval: medians and order statistics, no trimming."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Conclusion = Literal["faster", "slower", "no measurable difference"]

LEAST_EFFECT = 0.02
"""A smaller effect is never called faster or slower."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """Baseline time over candidate time, from rounds in which both ran."""

    ratio: float
    low: float
    high: float


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample at that share of the sorted samples, 0 to 1, nearest rank.

    >>> percentile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def paired_ratio(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> PairedRatio:
    """Median over rounds of baseline / candidate, with its 95 % order-statistic interval.

    Args:
        baseline_ms: one value a round.
        candidate_ms: one value a round, the same rounds.

    >>> paired_ratio([2.0] * 15, [1.0] * 15)
    PairedRatio(ratio=2.0, low=2.0, high=2.0)
    """
    logs = sorted(
        math.log(base / cand) for base, cand in zip(baseline_ms, candidate_ms, strict=True)
    )
    lowest = _rank_below(len(logs))
    return PairedRatio(
        ratio=math.exp(median(logs)),
        low=math.exp(logs[lowest]),
        high=math.exp(logs[len(logs) - 1 - lowest]),
    )


def _rank_below(count: int) -> int:
    """The largest rank r (from 0) whose two-sided interval [r, n-1-r] covers at least 95 %.

    For the median of n values the coverage is 1 - 2 P(X <= r) with X ~ Binomial(n, 1/2); with
    fewer than 6 rounds no interval reaches 95 % and the full range is taken.

    >>> _rank_below(15), _rank_below(5)
    (3, 0)
    """
    rank, below = 0, 0.0
    for candidate in range(count // 2):
        below += math.comb(count, candidate) / 2**count
        if 2 * below > 0.05:
            break
        rank = candidate
    return rank


def conclusion(pair: PairedRatio, noise: float) -> Conclusion:
    """`faster`, `slower` or `no measurable difference`.

    Args:
        pair: baseline over candidate.
        noise: A/A floor as a share: 0.01 is one per cent.

    >>> conclusion(PairedRatio(1.5, 1.4, 1.6), 0.01)
    'faster'
    >>> conclusion(PairedRatio(1.015, 1.01, 1.02), 0.001)
    'no measurable difference'
    """
    least = max(LEAST_EFFECT, 2 * noise)
    if pair.low > 1 and pair.ratio > 1 + least:
        return "faster"
    if pair.high < 1 and pair.ratio < 1 / (1 + least):
        return "slower"
    return "no measurable difference"
