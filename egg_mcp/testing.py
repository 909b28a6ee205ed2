"""What tests of this package and of its users import: an executor that runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio

from egg_mcp.executor import Report
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionClass, PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem, Screening, ValueFacts
from egg_mcp.vocabulary.verdict import (
    ContenderTime,
    Rigor,
    Timing,
    Trial,
    Verdict,
    VerdictStatus,
)

FAKE_DEVICE = DeviceFacts(
    kind="cuda",
    name="Fake GPU",
    arch="sm_90",
    multiprocessors=132,
    memory_bytes=1 << 37,
    l2_bytes=50_000_000,
    shared_memory_per_block_bytes=232_448,
    driver="13.0",
    python="3.12.3",
    torch="2.11.0",
    triton="3.6.0",
)

SOUND = Screening(
    status="ok",
    explanation="sound",
    inputs=(ValueFacts(name="inputs[0]", kind="tensor", shape=(64, 64), dtype="float32"),),
    outputs=(ValueFacts(name="outputs[0]", kind="tensor", shape=(64, 64), dtype="float32"),),
    families=(OperatorFamily.SOFTMAX,),
    flops=1_000,
    least_bytes=32_768,
    oracle="float64",
    device=FAKE_DEVICE,
)

Judge = Callable[[str, Rigor], Verdict]


def passing(speedup: float, rigor: Rigor = Rigor.QUICK) -> Verdict:
    """A correct verdict with a trusted timing of that speedup over eager."""
    return Verdict(
        status=VerdictStatus.PASS,
        explanation="All trials hold.",
        rigor=rigor,
        precision_policy=PrecisionPolicy.STRICT,
        precision_class=PrecisionClass.SAME_PRECISION,
        custom_kernel="all",
        launches={"kernel": 1},
        trials=(Trial(kind="given", seed=1, passed=True, error_ratio=1.0, error_limit=16.0),),
        timing=Timing(
            trust="trusted",
            trust_reason="",
            contenders=(_time("candidate", 1.0 / speedup), _time("eager", 1.0)),
            speedup_vs_eager=speedup,
            ci95_low=speedup * 0.99,
            ci95_high=speedup * 1.01,
            noise_percent=0.3,
            conclusion="faster" if speedup > 1 else "slower",
            rounds=7,
            input_sets=4,
            samples_ms={"candidate": ((1.0 / speedup,) * 10,) * 7},
        ),
        device=FAKE_DEVICE,
    )


def failing(status: VerdictStatus = VerdictStatus.WRONG) -> Verdict:
    """A verdict that keeps a candidate out of the pool."""
    return Verdict(
        status=status,
        explanation="outputs[0] differs.",
        likely_cause="a missing mask",
        rigor=Rigor.QUICK,
        precision_policy=PrecisionPolicy.STRICT,
        timing_reason="not correct, so not timed",
        device=FAKE_DEVICE,
    )


class FakeExecutor:
    """Judges by a function of the source; runs no code.

    A source that holds the word `SPEED=x` passes at that speedup, `WAIT` waits until released,
    anything else is wrong.
    """

    def __init__(self, judge: Judge | None = None, screening: Screening = SOUND) -> None:
        self.known_device: DeviceFacts | None = FAKE_DEVICE
        self.released = anyio.Event()
        self.evaluations: list[str] = []
        self._judge = judge or by_marker
        self._screening = screening

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    async def device(self) -> DeviceFacts:
        """The fake GPU."""
        return FAKE_DEVICE

    async def screen(self, problem: Problem, report: Report) -> Screening:
        """The screening it was made with."""
        await report(f"running the reference {problem.title}")
        return self._screening

    async def evaluate(
        self,
        problem: Problem,
        kernel_source: str,
        policy: PrecisionPolicy,
        rigor: Rigor,
        report: Report,
    ) -> Evaluation:
        """The judge's verdict, under that policy."""
        del problem
        self.evaluations.append(kernel_source)
        await report("trial 1 of 1")
        if "WAIT" in kernel_source:
            await self.released.wait()
        verdict = self._judge(kernel_source, rigor)
        return Evaluation(verdict.model_copy(update={"precision_policy": policy}))


def by_marker(source: str, rigor: Rigor) -> Verdict:
    """`SPEED=2.0` in the source is a pass at 2.0x; anything else is wrong."""
    for word in source.split():
        if word.startswith("SPEED="):
            return passing(float(word.removeprefix("SPEED=")), rigor)
    return failing()


def _time(name: str, median_ms: float) -> ContenderTime:
    return ContenderTime(
        name=name,
        median_ms=median_ms,
        p10_ms=median_ms,
        p90_ms=median_ms,
        wall_median_ms=median_ms * 1.05,
    )
