"""References by themselves: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import anyio
import pytest

from egg_mcp.executor import LocalExecutor
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.problem import Screening
from tests.sandbox.evaluation.judging import FIXTURES, judge, screen, settings

REFUSED = {
    "no_model": ("reference_failed", "Model"),
    "no_get_inputs": ("reference_failed", "get_inputs"),
    "syntax_error": ("reference_failed", "syntax"),
    "raises_in_forward": ("reference_failed", "forward"),
    "returns_non_tensor": ("reference_failed", "not a tensor"),
    "dropout": ("task_nondeterministic", ""),
    "constant_output": ("task_degenerate", ""),
    "hangs": ("reference_failed", "12 s"),
    "exits": ("reference_failed", "ended"),
    "bf16": ("infra_error", "bfloat16"),
    "segfaults": ("reference_failed", "SIGSEGV"),
    "not_finite": ("task_degenerate", "NaN"),
}
SOUND = ("good_add", "good_matmul", "int_outputs", "half", "two_linears")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Screening]:
    """Every reference fixture, screened in one executor."""
    state_dir = tmp_path_factory.mktemp("state")

    async def run() -> dict[str, Screening]:
        async with LocalExecutor(settings(state_dir)) as executor:
            return {name: await screen(executor, name) for name in (*REFUSED, *SOUND)}

    return anyio.run(run)


@pytest.mark.parametrize("name", REFUSED)
def test_a_reference_that_cannot_be_judged_against_is_refused_in_words(
    name: str, found: dict[str, Screening]
) -> None:
    status, phrase = REFUSED[name]

    assert found[name].status == status, found[name].explanation
    assert phrase in found[name].explanation
    assert len(found[name].explanation) > 20


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_reference_is_accepted_with_its_facts(
    name: str, found: dict[str, Screening]
) -> None:
    screening = found[name]

    assert screening.status == "ok", screening.explanation
    assert screening.inputs
    assert screening.outputs
    assert screening.families
    assert screening.device is not None
    assert screening.device.kind == "emulated"


def test_the_facts_of_a_matrix_product_are_right(found: dict[str, Screening]) -> None:
    screening = found["good_matmul"]

    assert screening.families == (OperatorFamily.GEMM,)
    assert screening.flops == 2 * 48 * 40 * 72
    assert screening.least_bytes == 4 * (48 * 40 + 40 * 72 + 48 * 72)
    assert screening.oracle == "float64"
    assert [value.shape for value in screening.inputs] == [(48, 40), (40, 72)]


def test_two_outputs_are_both_seen(found: dict[str, Screening]) -> None:
    assert [value.dtype for value in found["int_outputs"].outputs] == ["float32", "int64"]


def test_every_reference_fixture_is_a_case() -> None:
    files = {file.stem for file in (FIXTURES / "references").glob("*.py")}

    assert files == {*REFUSED, *SOUND}


def test_what_emulation_would_compute_wrongly_gets_no_verdict(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    state_dir = tmp_path_factory.mktemp("state")

    async def run() -> str:
        async with LocalExecutor(settings(state_dir)) as executor:
            verdict = (await judge(executor, "bf16", "torch_only")).verdict
            assert verdict.status.value == "infra_error"
            return verdict.explanation

    assert "bfloat16" in anyio.run(run)
