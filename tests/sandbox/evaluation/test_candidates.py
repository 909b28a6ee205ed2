"""Every candidate fixture gets the verdict it deserves."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import pytest

from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.vocabulary.precision import PrecisionPolicy
from tests.sandbox.evaluation.judging import FIXTURES, judge, settings

LOWP, TF32 = PrecisionPolicy.LOWP_OK, PrecisionPolicy.TF32_OK


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate, what it is judged against, and what must come of it."""

    candidate: str
    status: str
    phrase: str = ""
    reference: str = "good_add"
    policy: PrecisionPolicy = PrecisionPolicy.STRICT
    precision_class: str = ""
    custom_kernel: str = ""

    @property
    def id(self) -> str:
        """Its name in the report."""
        loose = "" if self.policy is PrecisionPolicy.STRICT else f"-{self.policy.value}"
        return f"{self.candidate}{loose}"


HONEST = [
    Case("add_right", "emulated_pass", custom_kernel="all", precision_class="same_precision"),
    Case("autotuned", "emulated_pass", custom_kernel="all"),
    Case("says_cuda", "emulated_pass"),
    Case("torch_only", "emulated_pass", custom_kernel="none"),
    Case("prints_much", "emulated_pass"),
    Case("prints_at_import", "emulated_pass"),
    Case("noncontiguous_right", "emulated_pass"),
    Case("static_output_buffer", "emulated_pass"),
    Case("max_right", "emulated_pass", reference="int_outputs"),
    Case("linear_other_order", "emulated_pass", reference="two_linears"),
    Case("matmul_ieee", "emulated_pass", reference="good_matmul", custom_kernel="all"),
    Case("matmul_tf32", "emulated_pass", reference="good_matmul", policy=TF32),
    Case("matmul_bf16", "emulated_pass", reference="good_matmul", policy=LOWP),
    Case("torch_only", "emulated_pass", reference="half"),
    Case("changes_defaults", "emulated_pass"),
    Case("breaks_its_streams", "emulated_pass"),
    Case("output_with_grad", "emulated_pass"),
    Case("extra_buffer", "emulated_pass", reference="two_linears"),
    Case("leaves_a_child", "emulated_pass"),
    Case("remembers_between_runs", "emulated_pass"),
    # Right on every input; that it is quick on inputs seen before only matters where time is taken.
    Case("keeps_by_first_values", "emulated_pass"),
]

WRONG = [
    Case("add_unmasked_wrong_tail", "wrong", "First at"),
    Case("wrong_dtype", "wrong", "float64"),
    Case("returns_input", "wrong"),
    Case("nan", "wrong", "nan"),
    Case("zeros", "wrong"),
    Case("counts_calls", "wrong"),
    Case("pointer_cache", "wrong"),
    Case("content_cache", "wrong"),
    Case("patches_allclose", "wrong"),
    Case("patches_matmul_and_call", "wrong"),
    Case("patches_generators", "wrong"),
    Case("walks_frames", "wrong"),
    Case("finds_the_reference", "wrong"),
    Case("subclass_output", "wrong", "Agreeable"),
    Case("duck_output", "wrong", "Duck"),
    Case("returns_a_tuple", "wrong"),
    Case("late_thread", "wrong"),
    Case("half_inside", "wrong"),
    Case("drops_inputs_after", "wrong"),
    Case("lies_in_the_harness", "wrong"),
    Case("forges_the_reply", "wrong"),
    Case("claims_unwritten_bytes", "wrong"),
    Case("lies_about_places", "wrong"),
    Case("predicts_seeds", "wrong"),
    Case("wrong_shape", "wrong", "[1, 5000]"),
    Case("returns_none", "wrong", "None"),
    Case("uninitialised", "wrong"),
    Case("one_bad_element", "wrong", "[1234]"),
    Case("matmul_drops_last_k", "wrong", reference="good_matmul", policy=LOWP),
    Case("matmul_half_accumulator", "wrong", reference="good_matmul"),
    Case("swallows_the_error", "wrong"),
    Case("fills_output_later", "wrong"),
    Case("never_swaps", "wrong"),
    Case("own_weights", "wrong", "state_dict", reference="two_linears"),
    Case("max_index_off", "wrong", "outputs[1]", reference="int_outputs"),
    Case("matmul_tf32", "wrong", reference="good_matmul", precision_class="tf32_like"),
    Case("matmul_bf16", "wrong", reference="good_matmul", precision_class="bf16_like"),
    Case("matmul_bf16", "wrong", reference="good_matmul", policy=TF32),
]

BROKEN = [
    Case("no_modelnew", "build_failed", "ModelNew"),
    Case("syntax_error", "build_failed", "line 23"),
    Case("missing_import", "build_failed", "module_that_does_not_exist"),
    Case("exits", "crashed", "exit code 0"),
    Case("sys_exit", "crashed", "first_call"),
    Case("hangs", "timed_out", "12 s"),
    Case("segfault", "crashed", "SIGSEGV"),
    Case("writes_into_descriptors", "crashed"),
    Case("triton_compile_error", "crashed", "first_call"),
    Case("imports_the_reference", "build_failed", "reference"),
    Case("exits_at_import", "build_failed", "SystemExit"),
    Case("closes_descriptors", "crashed"),
    Case("raises_unprintable", "crashed", "Unprintable"),
    Case("floods_output", "crashed", "SIGABRT"),
    Case("returns_itself", "crashed", "recursion"),
    Case("huge_output", "crashed", "allocate"),
]

CASES = [*HONEST, *WRONG, *BROKEN]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Evaluation]:
    """All cases in one executor: each after the other, referees warm."""
    state_dir = tmp_path_factory.mktemp("state")

    async def run() -> dict[Case, Evaluation]:
        async with LocalExecutor(settings(state_dir)) as executor:
            ordered = sorted(CASES, key=lambda case: case.reference)
            return {
                case: await judge(executor, case.reference, case.candidate, case.policy)
                for case in ordered
            }

    return anyio.run(run)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_candidate_gets_the_verdict_it_deserves(
    case: Case, verdicts: dict[Case, Evaluation]
) -> None:
    verdict = verdicts[case].verdict
    said = f"{verdict.explanation} {verdict.likely_cause}"

    assert verdict.status.value == case.status, said
    assert case.phrase in said
    if case.precision_class:
        assert verdict.precision_class.value == case.precision_class
    if case.custom_kernel:
        assert verdict.custom_kernel == case.custom_kernel
    assert verdict.timing is None
    assert verdict.timing_reason


@pytest.mark.parametrize("case", [*WRONG, *BROKEN], ids=lambda case: case.id)
def test_a_failure_says_what_was_wrong(case: Case, verdicts: dict[Case, Evaluation]) -> None:
    verdict = verdicts[case].verdict

    assert len(verdict.explanation) > 20
    if verdict.status.value == "wrong":
        failed = next(trial for trial in verdict.trials if not trial.passed)
        assert failed.mismatches[0].what
        assert str(failed.seed) in verdict.explanation
        assert verdict.likely_cause


def test_a_wrong_tail_is_found_where_it_is(verdicts: dict[Case, Evaluation]) -> None:
    verdict = verdicts[WRONG[0]].verdict
    first = next(trial for trial in verdict.trials if not trial.passed).mismatches[0]

    assert first.index is not None
    assert first.index[0] >= 4096
    assert first.got != first.expected
    assert first.bad_share is not None
    assert first.bad_share < 0.2


def test_what_a_candidate_prints_is_kept_in_part(verdicts: dict[Case, Evaluation]) -> None:
    much = verdicts[next(case for case in HONEST if case.candidate == "prints_much")]
    some = verdicts[next(case for case in HONEST if case.candidate == "prints_at_import")]

    assert len(much.printed.encode()) < 70_000
    assert "bytes left out" in much.printed
    assert "hello from the candidate" in some.printed


def test_every_candidate_fixture_is_a_case() -> None:
    files = {file.stem for file in (FIXTURES / "candidates").glob("*.py")}

    assert files == {case.candidate for case in CASES}
