from __future__ import annotations

import pytest

from egg_mcp.sandbox.diagnosis import explain, likely_cause
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionClass
from egg_mcp.vocabulary.verdict import Mismatch, Trial, TrialKind

GEMM = (OperatorFamily.GEMM,)
SOFTMAX = (OperatorFamily.SOFTMAX,)
WRONG = PrecisionClass.WRONG


def _failed(
    kind: TrialKind = "given",
    output: str = "outputs[0]",
    what: str = "off",
    got: str | None = "1.0",
    share: float | None = None,
) -> Trial:
    mismatch = Mismatch(
        output=output, what=what, index=(0, 7), got=got, expected="2.0", bad_share=share
    )
    return Trial(kind=kind, seed=42, passed=False, mismatches=(mismatch,))


PASSED = Trial(kind="given", seed=1, passed=True)


def test_explanation_is_about_the_first_failed_trial() -> None:
    text = explain((PASSED, _failed("swapped"), _failed("timed")))
    assert text == (
        "outputs[0] in trial `swapped` (seed 42): off. First at [0, 7]: got 1.0, expected 2.0."
    )


def test_explanation_without_a_place_gives_none() -> None:
    bare = Mismatch(output="outputs", what="a tuple of 2, not a tensor")
    trial = Trial(kind="given", seed=3, passed=False, mismatches=(bare,))
    assert explain((trial,)) == "outputs in trial `given` (seed 3): a tuple of 2, not a tensor."


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (_failed(output="inputs[1]"), "stores into a tensor it was given"),
        (_failed(what="dtype float16, expected float32"), "shape and dtype exactly"),
        (_failed(what="shape [1], expected [2]"), "shape and dtype exactly"),
        (_failed(output="outputs", what="a list"), "structure, shape and dtype"),
        (_failed("swapped"), "cached by pointer"),
        (_failed("repeat"), "kept from an earlier call"),
        (_failed("timed"), "does not follow the inputs' contents"),
        (_failed(got="nan"), "masked load without `other`"),
        (_failed(share=0.01), "last block of each axis"),
        (_failed(share=0.9), "the formula differs"),
        (_failed(share=None), "the formula differs"),
    ],
)
def test_cause_follows_the_pattern_of_failures(trial: Trial, words: str) -> None:
    assert words in likely_cause((PASSED, trial), WRONG, GEMM)


def test_stale_values_are_blamed_only_when_nothing_else_fails() -> None:
    assert "cached" not in likely_cause((_failed("given"), _failed("swapped")), WRONG, GEMM)


@pytest.mark.parametrize(
    ("seen", "name"), [(PrecisionClass.TF32_LIKE, "tf32"), (PrecisionClass.BF16_LIKE, "bf16")]
)
def test_small_error_of_a_dot_product_names_input_precision(
    seen: PrecisionClass, name: str
) -> None:
    cause = likely_cause((_failed(),), seen, GEMM)
    assert f"errors of the size of {name}" in cause
    assert "input_precision" in cause


def test_small_error_without_a_dot_product_does_not_name_input_precision() -> None:
    cause = likely_cause((_failed(),), PrecisionClass.TF32_LIKE, SOFTMAX)
    assert "input_precision" not in cause
    assert "another eps" in cause
