"""Verdicts as tools show them."""

from __future__ import annotations

import math

from egg_mcp.tools.result import VerdictView
from egg_mcp.vocabulary.verdict import ContenderTime, Timing, Trial, Verdict

_EXPLANATION = 1_500
_PRINTED = 600
_MOST_WHOLE_BYTES = 5_000
_MOST_NAMES = 10


def view_of(verdict: Verdict) -> VerdictView:
    """The verdict, shortened to what a model needs to go on."""
    timing = verdict.timing
    return VerdictView(
        status=verdict.status.value,
        explanation=_cut(verdict.explanation, _EXPLANATION),
        likely_cause=verdict.likely_cause,
        fault=verdict.fault,
        precision_policy=verdict.precision_policy,
        precision_class=verdict.precision_class.value,
        custom_kernel=verdict.custom_kernel,
        trials=tuple(_trial_line(trial) for trial in verdict.trials),
        speedup_vs_eager=_rounded(timing.speedup_vs_eager) if timing else None,
        ci95=_interval(timing) if timing else None,
        candidate_ms=_median_ms(timing, "candidate") if timing else None,
        eager_ms=_median_ms(timing, "eager") if timing else None,
        timing=timing_in_words(verdict),
        flags=verdict.flags,
        device=verdict.device.name if verdict.device else None,
        sandbox=verdict.device.sandbox if verdict.device else None,
        printed=verdict.output_tail[-_PRINTED:],
    )


def bounded(verdict: Verdict) -> Verdict:
    """The whole verdict, as far as a tool can send it; the resource has it uncut."""
    short = verdict.model_copy(
        update={"explanation": _cut(verdict.explanation, _EXPLANATION), "output_tail": ""}
    )
    if len(short.model_dump_json().encode()) <= _MOST_WHOLE_BYTES:
        return short
    return short.model_copy(
        update={
            "trials": tuple(_short_trial(trial) for trial in verdict.trials),
            "launches": dict(list(verdict.launches.items())[:_MOST_NAMES]),
            "torch_operators": dict(list(verdict.torch_operators.items())[:_MOST_NAMES]),
        }
    )


def _short_trial(trial: Trial) -> Trial:
    first = tuple(
        one.model_copy(update={"what": _cut(one.what, 200)}) for one in trial.mismatches[:1]
    )
    return trial.model_copy(update={"mismatches": first})


def timing_in_words(verdict: Verdict) -> str:
    """The timing in a clause, or why there is none."""
    timing = verdict.timing
    if timing is None:
        return verdict.timing_reason or "not measured"
    if timing.trust == "untrusted":
        return f"untrusted: {timing.trust_reason}"
    if timing.speedup_vs_eager is None:
        return timing.conclusion
    interval = _interval(timing)
    spread = f", 95 % interval {interval[0]:g} to {interval[1]:g}" if interval else ""
    return (
        f"{timing.conclusion}: {timing.speedup_vs_eager:.3g}x vs eager{spread}, "
        f"noise {timing.noise_percent:.1f} %"
    )


def headline(verdict: Verdict, candidate: int | None) -> str:
    """The verdict in one or two sentences."""
    who = f"Candidate {candidate}" if candidate is not None else "The kernel"
    text = f"{who}: {verdict.status.value}. {_cut(verdict.explanation, 700)}"
    if verdict.status.is_correct:
        text += f" Timing: {timing_in_words(verdict)}."
        if verdict.custom_kernel == "none":
            text += " No custom kernel was launched: torch does all the work."
    if verdict.likely_cause:
        text += f" Likely cause: {verdict.likely_cause}."
    if verdict.fault:
        text += f" {verdict.fault.next_step}"
    return text


def _trial_line(trial: Trial) -> str:
    if trial.passed:
        error = (
            f"error {trial.error_ratio:.2g} of {trial.error_limit:g} times the reference's own"
            if trial.error_ratio is not None and trial.error_limit is not None
            else "exact"
        )
        return f"{trial.kind}: ok, {error}"
    first = trial.mismatches[0]
    share = f", {100 * first.bad_share:.3g} % of elements" if first.bad_share is not None else ""
    return f"{trial.kind} (seed {trial.seed}): {first.output}: {first.what[:300]}{share}"


def _interval(timing: Timing) -> tuple[float, float] | None:
    low, high = timing.ci95_low, timing.ci95_high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return round(low, 3), round(high, 3)


def _median_ms(timing: Timing, name: str) -> float | None:
    found: ContenderTime | None = next((one for one in timing.contenders if one.name == name), None)
    return round(found.median_ms, 5) if found else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
