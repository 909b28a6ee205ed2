"""The same executor on a real GPU: verdicts, time, and who is to blame."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

import anyio
import pytest

from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.verdict import Rigor, Timing, Verdict
from tests.sandbox.evaluation.judging import FIXTURES, quiet


def _gpu_count() -> int:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    done = subprocess.run(
        [tool, "-L"], capture_output=True, text=True, encoding="utf-8", check=False
    )
    return done.stdout.count("GPU ") if done.returncode == 0 else 0


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(_gpu_count() == 0, reason="nvidia-smi lists no GPU"),
]


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate file, its reference file, and the status it must get."""

    candidate: str
    status: str
    reference: str = "gpu/big_add"


SMALL = "references/good_add"
CASES = [
    Case("candidates/add_right", "pass"),
    Case("candidates/torch_only", "pass"),
    Case("candidates/static_output_buffer", "pass", SMALL),
    Case("gpu/add_twice", "pass"),
    Case("gpu/sleeps_on_the_host", "pass", SMALL),
    Case("gpu/patched_timer", "pass"),
    Case("gpu/side_stream", "pass"),
    Case("candidates/add_unmasked_wrong_tail", "wrong", SMALL),
    Case("candidates/counts_calls", "wrong", SMALL),
    Case("candidates/triton_compile_error", "build_failed", SMALL),
    Case("candidates/claims_unwritten_bytes", "wrong", SMALL),
    Case("candidates/lies_about_places", "wrong", SMALL),
    Case("candidates/drops_inputs_after", "wrong", SMALL),
    Case("candidates/noncontiguous_right", "pass", SMALL),
    Case("gpu/illegal_address", "crashed", SMALL),
    Case("gpu/out_of_memory", "crashed", SMALL),
    Case("candidates/autotuned", "pass", SMALL),
    Case("candidates/torch_only", "pass", "references/bf16"),
    Case("candidates/matmul_tf32", "wrong", "references/good_matmul"),
    Case("candidates/matmul_ieee", "pass", "references/good_matmul"),
]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Evaluation]:
    """All cases in one executor, honest ones after those that break the context."""
    settings = Settings(state_dir=tmp_path_factory.mktemp("state"), device="cuda")

    async def run() -> dict[Case, Evaluation]:
        async with LocalExecutor(settings) as executor:
            return {case: await _judge(executor, case) for case in CASES}

    return anyio.run(run)


async def _judge(executor: LocalExecutor, case: Case) -> Evaluation:
    source = (FIXTURES / f"{case.reference}.py").read_text(encoding="utf-8")
    problem = Problem(problem_hash=content_hash(source), title=case.reference, source=source)
    kernel = (FIXTURES / f"{case.candidate}.py").read_text(encoding="utf-8")
    return await executor.evaluate(problem, kernel, PrecisionPolicy.STRICT, Rigor.QUICK, quiet)


def verdict_of(evaluations: dict[Case, Evaluation], candidate: str) -> Verdict:
    return next(
        evaluation.verdict
        for case, evaluation in evaluations.items()
        if case.candidate.endswith(candidate) and case.reference == "gpu/big_add"
    )


def timing_of(evaluations: dict[Case, Evaluation], candidate: str) -> Timing:
    timing = verdict_of(evaluations, candidate).timing
    assert timing is not None
    return timing


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.candidate} {case.reference}")
def test_a_candidate_gets_the_verdict_it_deserves_on_a_gpu(
    case: Case, evaluations: dict[Case, Evaluation]
) -> None:
    verdict = evaluations[case].verdict

    # A candidate that never joins its stream may be caught, or be lucky: it is never faster.
    allowed = {case.status, "wrong"} if case.candidate == "gpu/side_stream" else {case.status}
    assert verdict.status.value in allowed, verdict.explanation
    assert verdict.device is not None
    assert verdict.device.kind == "cuda"
    if verdict.status.value == "pass":
        assert verdict.timing is not None
        assert verdict.trials[-1].kind == "timed"
        assert verdict.transfer == "device"


def test_time_is_trusted_and_its_samples_are_kept(evaluations: dict[Case, Evaluation]) -> None:
    timing = timing_of(evaluations, "add_right")

    assert timing.trust == "trusted", timing.trust_reason
    assert {one.name for one in timing.contenders} == {"candidate", "eager"}
    assert len(timing.samples_ms["candidate"]) == timing.rounds == 7
    assert timing.input_sets >= 2


def test_the_same_work_is_never_called_faster(evaluations: dict[Case, Evaluation]) -> None:
    timing = timing_of(evaluations, "torch_only")

    assert timing.conclusion == "no measurable difference"
    assert timing.speedup_vs_eager == pytest.approx(1.0, abs=0.03)


def test_twice_the_work_is_slower(evaluations: dict[Case, Evaluation]) -> None:
    timing = timing_of(evaluations, "add_twice")

    assert timing.conclusion == "slower"
    assert timing.speedup_vs_eager == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("candidate", ["patched_timer", "side_stream"])
def test_a_lie_about_time_is_never_a_speedup(
    candidate: str, evaluations: dict[Case, Evaluation]
) -> None:
    verdict = verdict_of(evaluations, candidate)

    if verdict.status.value == "pass":
        assert verdict.timing is not None
        assert verdict.timing.conclusion != "faster", verdict.timing.trust_reason


def test_what_the_compiler_made_is_kept(evaluations: dict[Case, Evaluation]) -> None:
    kinds = evaluations[CASES[0]].asm

    assert {"ttir", "ttgir", "llir", "ptx"} <= set(kinds)
    assert "add_kernel" in kinds["ptx"]
