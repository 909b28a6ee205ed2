from __future__ import annotations

import pytest

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut
from egg_mcp.sandbox.findings import Findings
from egg_mcp.testing import FAKE_DEVICE
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import Mismatch, Rigor, Trial, VerdictStatus

EMULATED = DeviceFacts(kind="emulated", name="CPU", python="3.12", torch="2.11", triton=None)
HELD = Trial(kind="given", seed=1, passed=True, error_ratio=1.5, error_limit=16.0)
FAILED = Trial(
    kind="given", seed=2, passed=False, mismatches=(Mismatch(output="outputs[0]", what="off"),)
)


def _found(device: DeviceFacts | None = FAKE_DEVICE, *trials: Trial) -> Findings:
    return Findings(PrecisionPolicy.STRICT, Rigor.QUICK, device, (), trials=list(trials))


def test_all_trials_held_is_a_pass_on_a_gpu_only() -> None:
    assert _found(FAKE_DEVICE, HELD).after_trials().status is VerdictStatus.PASS
    for device in (EMULATED, None):
        verdict = _found(device, HELD).after_trials()
        assert verdict.status is VerdictStatus.EMULATED_PASS
        assert "not run on a GPU" in verdict.explanation
        assert "no GPU" in (verdict.timing_reason or "")


def test_no_trial_at_all_is_no_pass() -> None:
    assert _found().after_trials().status is VerdictStatus.INFRA_ERROR


def test_one_failed_trial_is_wrong_with_a_cause() -> None:
    verdict = _found(FAKE_DEVICE, HELD, FAILED).after_trials()
    assert verdict.status is VerdictStatus.WRONG
    assert "seed 2" in verdict.explanation
    assert verdict.likely_cause


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WorkerTimedOut("trial", 60.0), VerdictStatus.TIMED_OUT),
        (WorkerDied("died of signal 11", -11), VerdictStatus.CRASHED),
        (ProtocolError("not a frame"), VerdictStatus.CRASHED),
    ],
)
def test_end_of_the_process_has_its_word_and_its_cause(
    error: WorkerTimedOut | WorkerDied | ProtocolError, status: VerdictStatus
) -> None:
    verdict = _found(EMULATED, HELD).after_end_of_process(error)
    assert verdict.status is status
    assert str(error) in verdict.explanation
    assert verdict.likely_cause
    assert verdict.timing_reason == "not correct, so not timed"


@pytest.mark.parametrize(
    ("trials", "launches", "operators", "word"),
    [
        ((), {}, {}, "unknown"),
        ((HELD,), {}, {"mm": 1}, "none"),
        ((HELD,), {"kernel": 1}, {"mm": 1}, "partial"),
        ((HELD,), {"kernel": 1}, {}, "all"),
    ],
)
def test_custom_kernel_is_said_from_launches_and_operators(
    trials: tuple[Trial, ...], launches: dict[str, int], operators: dict[str, int], word: str
) -> None:
    found = _found(FAKE_DEVICE, *trials)
    found.launches, found.operators = launches, operators
    assert found.verdict(VerdictStatus.WRONG, "x").custom_kernel == word
