"""Verdict: what was found about one candidate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.precision import PrecisionClass, PrecisionPolicy
from egg_mcp.vocabulary.record import Record


class Rigor(StrEnum):
    """How much is tried."""

    QUICK = "quick"
    """Inside stages: few trials, few timing rounds."""
    FINAL = "final"
    """In `verify_and_benchmark`: every trial, more rounds."""


class VerdictStatus(StrEnum):
    """One word for what was found."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    EMULATED_PASS = "emulated_pass"  # noqa: S105 - a verdict, not a password
    WRONG = "wrong"
    BUILD_FAILED = "build_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    TASK_DEGENERATE = "task_degenerate"
    TASK_NONDETERMINISTIC = "task_nondeterministic"
    REFERENCE_FAILED = "reference_failed"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"

    @property
    def is_correct(self) -> bool:
        """Whether the candidate may enter the champion pool."""
        return self in (VerdictStatus.PASS, VerdictStatus.EMULATED_PASS)


TrialKind = Literal["given", "zero_mean", "rescaled", "repeat", "swapped", "timed"]


class Mismatch(Record):
    """One place where a candidate's output was not what it must be."""

    output: str
    """Which output: `outputs[0]`."""
    what: str
    """What differs, in words."""
    index: tuple[int, ...] | None = None
    """First bad element; None where the whole output is off."""
    got: str | None = None
    """The candidate's value there."""
    expected: str | None = None
    """The oracle's value there."""
    bad_share: float | None = None
    """Share of elements outside the bound, 0 to 1."""


class Trial(Record):
    """One call of the candidate on inputs it had not seen."""

    kind: TrialKind
    """What the inputs were."""
    seed: int
    """Drawn for this trial alone after the candidate was fixed; replays the same inputs."""
    passed: bool
    """Whether every output held."""
    error_ratio: float | None = None
    """RMS error against float64, over the reference's own error; the largest of the outputs."""
    error_limit: float | None = None
    """The largest ratio the policy allows."""
    mismatches: tuple[Mismatch, ...] = ()
    """What was off; empty when passed."""


class ContenderTime(Record):
    """The time of one contender over all rounds."""

    name: str
    """`candidate` or `eager`."""
    median_ms: float
    """Median over rounds of the per-round median of single calls, CUDA events, inputs rotated."""
    p10_ms: float
    """10th percentile of all calls."""
    p90_ms: float
    """90th percentile of all calls."""
    wall_median_ms: float
    """The same calls by the server's clock, per call."""


class Timing(Record):
    """How fast, against live baselines, with what trust."""

    trust: Literal["trusted", "untrusted"]
    """`untrusted`: the outside clock or a re-checked timed call disagrees; no speedup is given."""
    trust_reason: str
    """Why, in words."""
    contenders: tuple[ContenderTime, ...]
    """Candidate and baselines, all in the same rounds."""
    speedup_vs_eager: float | None
    """Median over rounds of eager time / candidate time; None when untrusted."""
    ci95_low: float | None
    """Lower end of the 95 % interval of that ratio."""
    ci95_high: float | None
    """Upper end."""
    noise_percent: float
    """A/A floor: how far two blocks of the same eager reference differ in this run."""
    conclusion: Literal["faster", "slower", "no measurable difference", "untrusted"]
    """`faster` only if the interval excludes 1 and the effect exceeds max(2 %, 2 x noise)."""
    rounds: int
    """Interleaved rounds, each in random order."""
    input_sets: int
    """Different input sets the calls rotated through."""
    samples_ms: dict[str, tuple[tuple[float, ...], ...]] = Field(
        default_factory=dict[str, tuple[tuple[float, ...], ...]]
    )
    """Raw samples: contender -> round -> calls. Kept in the store, left out of tool results."""


class Verdict(Record):
    """What was found about one candidate under one policy at one rigor."""

    status: VerdictStatus
    """One word."""
    explanation: str
    """One or two sentences with the numbers in them."""
    likely_cause: str | None = None
    """What most often causes this; None when it holds."""
    fault: Fault | None = None
    """How it ended early; None where it ran to its end."""
    rigor: Rigor
    """How much was tried."""
    precision_policy: PrecisionPolicy
    """What error was allowed."""
    precision_class: PrecisionClass = PrecisionClass.NOT_CLASSIFIED
    """What error was seen."""
    custom_kernel: Literal["none", "partial", "all", "unknown"] = "unknown"
    """Whether the work is done by own kernels: launches seen, and torch operators left."""
    launches: dict[str, int] = Field(default_factory=dict[str, int])
    """Triton kernels launched in one forward, with how often."""
    torch_operators: dict[str, int] = Field(default_factory=dict[str, int])
    """Torch compute operators left in one forward, with how often."""
    generality: Literal["not_checked"] = "not_checked"
    """Other shapes and layouts than the Problem's."""
    flags: tuple[str, ...] = ()
    """Short remarks that a reader must not miss."""
    trials: tuple[Trial, ...] = ()
    """Every trial that ran."""
    timing: Timing | None = None
    """How fast; None when not measured."""
    timing_reason: str | None = None
    """Why `timing` is None."""
    phases_ms: dict[str, float] = Field(default_factory=dict[str, float])
    """Where the evaluation's time went, by the server's clock."""
    transfer: Literal["device", "host"] = "host"
    """How tensors went between reference and candidate: device memory that both map, or files."""
    device: DeviceFacts | None = None
    """What it ran on."""
    output_tail: str = ""
    """The end of what the candidate printed."""


def unjudged(
    status: VerdictStatus, explanation: str, policy: PrecisionPolicy, rigor: Rigor
) -> Verdict:
    """A verdict for a candidate that never reached a trial."""
    return Verdict(
        status=status,
        explanation=explanation,
        rigor=rigor,
        precision_policy=policy,
        timing_reason="not correct, so not timed",
    )
