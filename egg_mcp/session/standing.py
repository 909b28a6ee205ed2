"""Standing: the attempts of a session and the champion pool that the gate makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Timing, Verdict, VerdictStatus

POOL_SIZE = 3
"""How many champions a stage hands on."""
LEAST_GAIN = 0.02
"""A smaller gain over the champion is a tie, and ties keep the older."""

_INCONCLUSIVE = (
    VerdictStatus.INFRA_ERROR,
    VerdictStatus.INTERRUPTED,
    VerdictStatus.REFERENCE_FAILED,
    VerdictStatus.TASK_DEGENERATE,
    VerdictStatus.TASK_NONDETERMINISTIC,
)
"""The machine's or the reference's own failures: they say nothing about the candidate."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate and the last verdict that says something about it."""

    candidate: Candidate
    verdict: Verdict | None

    @property
    def is_correct(self) -> bool:
        """Whether the last conclusive verdict is a pass."""
        return self.verdict is not None and self.verdict.status.is_correct

    @property
    def timing(self) -> Timing | None:
        """Its trusted timing, if any."""
        if self.verdict is None or self.verdict.timing is None:
            return None
        return self.verdict.timing if self.verdict.timing.trust == "trusted" else None

    @property
    def speedup(self) -> float | None:
        """Against live eager, None when not measured or not trusted."""
        return self.timing.speedup_vs_eager if self.timing else None


def attempt_of(candidate: Candidate, verdicts: Iterable[Verdict]) -> Attempt:
    """The attempt that these verdicts, oldest first, make of the candidate."""
    conclusive = [verdict for verdict in verdicts if verdict.status not in _INCONCLUSIVE]
    return Attempt(candidate, conclusive[-1] if conclusive else None)


@dataclass(frozen=True, slots=True)
class Standing:
    """All attempts of a session in order of submission."""

    attempts: tuple[Attempt, ...]

    @property
    def champions(self) -> tuple[Attempt, ...]:
        """The pool, best first.

        Only correct candidates enter. A newcomer goes before an incumbent only when it is
        measurably faster; where nothing is timed (no GPU) the newest leads, since nothing
        else tells them apart.
        """
        pool: list[Attempt] = []
        for attempt in self.attempts:
            if not attempt.is_correct:
                continue
            place = next(
                (at for at, incumbent in enumerate(pool) if _goes_before(attempt, incumbent)),
                len(pool),
            )
            pool.insert(place, attempt)
        return tuple(pool[:POOL_SIZE])

    @property
    def champion(self) -> Attempt | None:
        """The best correct attempt, None while there is none."""
        return self.champions[0] if self.champions else None

    def of_stage(self, stage: Stage) -> tuple[Attempt, ...]:
        """The attempts handed in at that stage."""
        return tuple(attempt for attempt in self.attempts if attempt.candidate.stage is stage)

    def get(self, number: int) -> Attempt | None:
        """The attempt of that candidate number."""
        return next(
            (attempt for attempt in self.attempts if attempt.candidate.number == number), None
        )


def measurably_faster(new: Timing, old: Timing) -> bool:
    """Whether `new` beats `old`, both timed against live eager, beyond gain and noise."""
    if new.speedup_vs_eager is None or old.speedup_vs_eager is None or new.ci95_low is None:
        return False
    noise = max(new.noise_percent, old.noise_percent) / 100
    least = max(LEAST_GAIN, 2 * noise)
    gained = new.speedup_vs_eager / old.speedup_vs_eager > 1 + least
    return gained and new.ci95_low > old.speedup_vs_eager


def _goes_before(new: Attempt, old: Attempt) -> bool:
    if new.timing is None:
        return old.timing is None
    return old.timing is None or measurably_faster(new.timing, old.timing)
