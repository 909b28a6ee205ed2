from __future__ import annotations

import math
from typing import Any

import pytest

from egg_mcp.sandbox.trial_plan import (
    LIMIT_16_BIT,
    LIMIT_FLOAT32,
    LIMIT_ROUNDED,
    PlannedTrial,
    judged,
    plan_trials,
    precision_class,
)
from egg_mcp.vocabulary.precision import PrecisionClass, PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor

GIVEN = PlannedTrial("given", 7)
STRICT, TF32_OK, LOWP_OK = PrecisionPolicy


def _output(**changes: Any) -> dict[str, Any]:
    return {
        "name": "outputs[0]",
        "dtype": "float32",
        "ratio": 1.0,
        "elementwise_ok": True,
        **changes,
    }


def _passed(policy: PrecisionPolicy = STRICT, **changes: Any) -> bool:
    return judged(GIVEN, {"outputs": [_output(**changes)]}, policy).passed


@pytest.mark.parametrize("rigor", list(Rigor))
def test_plan_starts_as_given_and_ends_with_the_first_inputs_again(rigor: Rigor) -> None:
    plan = plan_trials(rigor)
    assert (plan[0].kind, plan[-1].kind) == ("given", "repeat")
    assert plan[0].seed == plan[-1].seed
    assert len({trial.seed for trial in plan}) == len(plan) - 1
    assert {"zero_mean", "swapped"} <= {trial.kind for trial in plan}


def test_plan_is_drawn_anew_each_time() -> None:
    plans = [plan_trials(Rigor.FINAL) for _ in range(40)]
    assert len({trial.seed for plan in plans for trial in plan[:-1]}) == 40 * 7
    assert len({tuple(trial.kind for trial in plan) for plan in plans}) > 1
    assert len(plans[0]) > len(plan_trials(Rigor.QUICK))


def test_repeats_and_swaps_are_made_of_inputs_as_given() -> None:
    kinds = ("given", "zero_mean", "rescaled", "repeat", "swapped", "timed")
    inputs = [PlannedTrial(kind, 1).inputs for kind in kinds]
    assert inputs == ["given", "zero_mean", "rescaled", "given", "given", "given"]


def test_sound_reply_passes_with_its_largest_ratio() -> None:
    reply = {"outputs": [_output(ratio=2.0), _output(ratio=5.0), _output(ratio=1.0)]}
    trial = judged(GIVEN, reply, STRICT)
    assert trial.passed
    assert (trial.kind, trial.seed) == ("given", 7)
    assert (trial.error_ratio, trial.error_limit) == (5.0, LIMIT_FLOAT32)


@pytest.mark.parametrize(
    ("dtype", "limit"),
    [
        ("float32", LIMIT_FLOAT32),
        ("float64", LIMIT_FLOAT32),
        ("float16", LIMIT_16_BIT),
        ("bfloat16", LIMIT_16_BIT),
    ],
)
def test_limit_depends_on_the_dtype_and_includes_itself(dtype: str, limit: float) -> None:
    assert _passed(dtype=dtype, ratio=limit)
    assert not _passed(dtype=dtype, ratio=limit * 1.0001)
    assert not _passed(dtype=dtype, ratio=math.inf)


def test_one_bad_element_fails_whatever_the_ratio() -> None:
    assert not _passed(ratio=0.0, elementwise_ok=False)
    assert not _passed(LOWP_OK, ratio=0.0, elementwise_ok=False)


def test_integer_output_is_exact_or_wrong() -> None:
    assert _passed(ratio=None, elementwise_ok=None, exact=True, dtype="int64") is False
    exact = {"name": "outputs[0]", "dtype": "int64", "exact": True}
    assert judged(GIVEN, {"outputs": [exact]}, STRICT).passed
    assert not judged(GIVEN, {"outputs": [{**exact, "exact": False}]}, STRICT).passed


def test_missing_fields_never_pass() -> None:
    assert not judged(GIVEN, {"outputs": [{}]}, STRICT).passed
    assert not judged(GIVEN, {"outputs": [{"ratio": 1.0}]}, STRICT).passed
    assert not judged(GIVEN, {"outputs": [{"name": "outputs[0]", "dtype": "int8"}]}, LOWP_OK).passed


def test_structure_and_changed_inputs_fail_with_their_words() -> None:
    reply = {"structure": "2 tensors, not 1", "inputs_changed": ["inputs[1]"], "outputs": []}
    trial = judged(GIVEN, reply, STRICT)
    assert not trial.passed
    assert [one.output for one in trial.mismatches] == ["outputs", "inputs[1]"]
    assert trial.mismatches[0].what == "2 tensors, not 1"
    assert trial.error_ratio is None


@pytest.mark.parametrize(("policy", "suffix"), [(TF32_OK, "tf32"), (LOWP_OK, "bf16")])
def test_looser_policy_judges_against_rounded_inputs(policy: PrecisionPolicy, suffix: str) -> None:
    rounded = {f"ratio_{suffix}": LIMIT_ROUNDED, f"elementwise_ok_{suffix}": True}
    far = {"ratio": 900.0, "elementwise_ok": False}
    assert not _passed(STRICT, **far, **rounded)
    assert _passed(policy, **far, **rounded)
    assert not _passed(policy, **far, **{**rounded, f"ratio_{suffix}": LIMIT_ROUNDED * 1.01})
    assert not _passed(policy, **far, **{**rounded, f"elementwise_ok_{suffix}": False})
    assert not _passed(policy, **far)


def test_looser_policy_never_refuses_what_strict_takes() -> None:
    worse_rounded = {"ratio_bf16": 99.0, "elementwise_ok_bf16": False}
    assert _passed(STRICT, **worse_rounded)
    assert _passed(LOWP_OK, **worse_rounded)


def test_mismatch_says_where_and_falls_back_to_the_ratio() -> None:
    found = {"what": "off", "index": [1, 2], "got": "0", "expected": "1", "bad_share": 0.5}
    reply = {"outputs": [_output(ratio=20.0, mismatch=found), _output(ratio=30.0)]}
    first, second = judged(GIVEN, reply, STRICT).mismatches
    assert (first.what, first.index, first.bad_share) == ("off", (1, 2), 0.5)
    assert second.what == "RMS error is 30 times the reference's own; the limit is 16"
    assert second.index is None


@pytest.mark.parametrize(
    ("outputs", "seen"),
    [
        ([], PrecisionClass.NOT_CLASSIFIED),
        ([{"exact": True}], PrecisionClass.NOT_CLASSIFIED),
        ([_output()], PrecisionClass.SAME_PRECISION),
        (
            [_output(ratio=500.0, ratio_tf32=1.0, elementwise_ok_tf32=True)],
            PrecisionClass.TF32_LIKE,
        ),
        (
            [_output(ratio=500.0, ratio_tf32=9.0, ratio_bf16=1.0, elementwise_ok_bf16=True)],
            PrecisionClass.BF16_LIKE,
        ),
        ([_output(ratio=500.0)], PrecisionClass.WRONG),
        ([_output(elementwise_ok=False)], PrecisionClass.WRONG),
        ([_output(ratio=math.inf)], PrecisionClass.WRONG),
        ([_output(ratio=math.nan)], PrecisionClass.WRONG),
        (
            [_output(), _output(ratio=500.0, ratio_tf32=1.0), _output(ratio=1.0)],
            PrecisionClass.TF32_LIKE,
        ),
        ([_output(ratio=500.0), _output()], PrecisionClass.WRONG),
    ],
)
def test_class_is_that_of_the_worst_output(
    outputs: list[dict[str, Any]], seen: PrecisionClass
) -> None:
    assert precision_class({"outputs": outputs}) is seen


def test_empty_reply_has_no_class() -> None:
    assert precision_class({}) is PrecisionClass.NOT_CLASSIFIED


@pytest.mark.parametrize("policy", list(PrecisionPolicy))
def test_ratio_that_is_no_number_never_passes(policy: PrecisionPolicy) -> None:
    nan = {"ratio": math.nan, "ratio_tf32": math.nan, "ratio_bf16": math.nan}
    assert not _passed(policy, **nan)
