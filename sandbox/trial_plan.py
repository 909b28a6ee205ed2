"""Which trials a candidate goes through, and what a judged trial means."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from egg_mcp.sandbox.referee import new_seed
from egg_mcp.vocabulary.precision import PrecisionClass, PrecisionPolicy
from egg_mcp.vocabulary.verdict import Mismatch, Rigor, Trial, TrialKind

LIMIT_FLOAT32 = 16.0
"""Largest ratio of RMS errors for float32 and float64 outputs."""
LIMIT_16_BIT = 3.0
"""Largest ratio for float16 and bfloat16 outputs."""
LIMIT_ROUNDED = 3.0
"""Largest ratio against the error of a run with rounded inputs, under a looser policy."""

_MIDDLE: dict[Rigor, tuple[TrialKind, ...]] = {
    Rigor.QUICK: ("given", "zero_mean", "rescaled", "swapped"),
    Rigor.FINAL: ("given", "given", "zero_mean", "zero_mean", "rescaled", "swapped"),
}


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One call to come."""

    kind: TrialKind
    seed: int

    @property
    def inputs(self) -> str:
        """The kind of inputs the referee must make: repeats and swaps are as given."""
        return self.kind if self.kind in ("zero_mean", "rescaled") else "given"


def plan_trials(rigor: Rigor) -> tuple[PlannedTrial, ...]:
    """The trials in their order: first as given, the middle shuffled, the first again last.

    The candidate is told neither how many there are nor which is which.

    >>> kinds = [trial.kind for trial in plan_trials(Rigor.QUICK)]
    >>> kinds[0], kinds[-1]
    ('given', 'repeat')
    """
    middle = list(_MIDDLE[rigor])
    secrets.SystemRandom().shuffle(middle)
    first = PlannedTrial("given", new_seed())
    return (
        first,
        *(PlannedTrial(kind, new_seed()) for kind in middle),
        PlannedTrial("repeat", first.seed),
    )


def judged(planned: PlannedTrial, reply: dict[str, Any], policy: PrecisionPolicy) -> Trial:
    """What the referee's numbers mean under the policy."""
    mismatches: list[Mismatch] = []
    ratio_seen: float | None = None
    limit_seen: float | None = None
    if structure := reply.get("structure"):
        mismatches.append(Mismatch(output="outputs", what=str(structure)))
    mismatches.extend(
        Mismatch(output=str(name), what="forward changed its input; the reference does not")
        for name in reply.get("inputs_changed", ())
    )
    for output in reply.get("outputs", ()):
        ratio, limit, elementwise_ok = _under(output, policy)
        if ratio is not None and (ratio_seen is None or ratio > ratio_seen):
            ratio_seen, limit_seen = ratio, limit
        # Not `ratio > limit`: a ratio that is no number must not pass.
        too_far = ratio is not None and limit is not None and not ratio <= limit
        if too_far or not elementwise_ok or output.get("exact") is False:
            mismatches.append(_mismatch(output, ratio, limit))
    return Trial(
        kind=planned.kind,
        seed=planned.seed,
        passed=not mismatches,
        error_ratio=ratio_seen,
        error_limit=limit_seen,
        mismatches=tuple(mismatches),
    )


def precision_class(reply: dict[str, Any]) -> PrecisionClass:
    """The class that the outputs of a zero-mean trial show: the worst of them."""
    order = list(PrecisionClass)
    worst = PrecisionClass.SAME_PRECISION
    seen = False
    for output in reply.get("outputs", ()):
        if output.get("ratio") is None:
            continue
        seen = True
        found = PrecisionClass.WRONG
        for candidate, policy in (
            (PrecisionClass.SAME_PRECISION, PrecisionPolicy.STRICT),
            (PrecisionClass.TF32_LIKE, PrecisionPolicy.TF32_OK),
            (PrecisionClass.BF16_LIKE, PrecisionPolicy.LOWP_OK),
        ):
            ratio, limit, elementwise_ok = _under(output, policy)
            if elementwise_ok and ratio is not None and limit is not None and ratio <= limit:
                found = candidate
                break
        worst = max(worst, found, key=order.index)
    return worst if seen else PrecisionClass.NOT_CLASSIFIED


def _under(
    output: dict[str, Any], policy: PrecisionPolicy
) -> tuple[float | None, float | None, bool]:
    """Ratio, limit, and whether every element holds, as the policy sees this output."""
    strict_limit = LIMIT_16_BIT if output.get("dtype") in ("float16", "bfloat16") else LIMIT_FLOAT32
    ratio = output.get("ratio")
    elementwise_ok = bool(output.get("elementwise_ok", output.get("exact", False)))
    within = elementwise_ok and (ratio is None or ratio <= strict_limit)
    if policy is PrecisionPolicy.STRICT or ratio is None or within:
        return ratio, strict_limit if ratio is not None else None, elementwise_ok
    suffix = "tf32" if policy is PrecisionPolicy.TF32_OK else "bf16"
    if output.get(f"ratio_{suffix}") is None:
        return ratio, strict_limit, elementwise_ok
    return (
        output[f"ratio_{suffix}"],
        LIMIT_ROUNDED,
        bool(output.get(f"elementwise_ok_{suffix}", elementwise_ok)),
    )


def _mismatch(output: dict[str, Any], ratio: float | None, limit: float | None) -> Mismatch:
    found: dict[str, Any] = output.get("mismatch") or {}
    what = str(found.get("what") or "")
    if not what and ratio is not None and limit is not None:
        what = f"RMS error is {ratio:.3g} times the reference's own; the limit is {limit:g}"
    index = found.get("index")
    return Mismatch(
        output=str(output.get("name", "outputs")),
        what=what or "differs",
        index=tuple(index) if index is not None else None,
        got=found.get("got"),
        expected=found.get("expected"),
        bad_share=found.get("bad_share"),
    )
