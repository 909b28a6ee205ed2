"""Diagnosis: what a failed trial most often means, said in one sentence."""

from __future__ import annotations

from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionClass
from egg_mcp.vocabulary.verdict import Mismatch, Trial

_DOT_FAMILIES = {OperatorFamily.GEMM, OperatorFamily.CONVOLUTION, OperatorFamily.ATTENTION}

_STALE = (
    "the result does not follow the inputs' contents: something is cached by pointer, by call "
    "count, or kept from an earlier call"
)


def explain(trials: tuple[Trial, ...]) -> str:
    """Two sentences on the first failed trial: where, got, expected, seed.

    >>> bad = Mismatch(output="outputs[0]", what="3 elements off", index=(0, 7), got="0.0",
    ...                expected="0.5", bad_share=0.01)
    >>> explain((Trial(kind="given", seed=4, passed=False, mismatches=(bad,)),))
    'outputs[0] in trial `given` (seed 4): 3 elements off. First at [0, 7]: got 0.0, expected 0.5.'
    """
    failed = next(trial for trial in trials if not trial.passed)
    first = failed.mismatches[0]
    text = f"{first.output} in trial `{failed.kind}` (seed {failed.seed}): {first.what}."
    if first.index is not None:
        text += f" First at {list(first.index)}: got {first.got}, expected {first.expected}."
    return text


def likely_cause(
    trials: tuple[Trial, ...], seen: PrecisionClass, families: tuple[OperatorFamily, ...]
) -> str:
    """The most frequent cause of this pattern of failures.

    Args:
        trials: all of them.
        seen: the class that the zero-mean trial showed.
        families: what the Problem is made of: only some of it can be done in TF32.
    """
    failed = [trial for trial in trials if not trial.passed]
    stale_only = {trial.kind for trial in failed} <= {"swapped", "repeat", "timed"}
    first = failed[0].mismatches[0]
    if first.output.startswith("inputs"):
        return "the kernel stores into a tensor it was given: allocate the output instead"
    if "dtype" in first.what or "shape" in first.what or first.output == "outputs":
        return "the output must have the reference's structure, shape and dtype exactly"
    if stale_only:
        return _STALE
    if seen in (PrecisionClass.TF32_LIKE, PrecisionClass.BF16_LIKE):
        return _small_error(seen, families)
    return _by_values(first)


def _small_error(seen: PrecisionClass, families: tuple[OperatorFamily, ...]) -> str:
    approximate = (
        "an approximation or a slightly different formula: tanh instead of erf, unbiased instead "
        "of biased variance, another eps, half-precision intermediates"
    )
    if not _DOT_FAMILIES & set(families):
        return approximate
    return (
        f"errors of the size of {seen.value.removesuffix('_like')}: tl.dot on float32 takes TF32 "
        'unless told otherwise, so pass input_precision="ieee", "tf32x3" or "bf16x3" and keep '
        f"accumulators in float32; or {approximate}"
    )


def _by_values(first: Mismatch) -> str:
    share = first.bad_share or 0.0
    if first.got == "nan":
        return (
            "not a number where the reference is finite: a masked load without `other`, an "
            "exponential without its maximum subtracted, or a division by zero"
        )
    if share and share < 0.5:
        return (
            "part of the output is off: look at the last block of each axis (mask, `other` of a "
            "masked load in a reduction, grid too small) and at offsets between programs"
        )
    return "the formula differs: compare constants, axes, order of operations and eps term by term"
