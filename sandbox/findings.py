"""Findings: what is known about a candidate so far, and the verdict that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut
from egg_mcp.sandbox.diagnosis import explain, likely_cause
from egg_mcp.sandbox.fault_finding import fault_of_end, fault_of_error
from egg_mcp.sandbox.worker_process import UserCodeError
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.precision import PrecisionClass, PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor, Timing, Trial, Verdict, VerdictStatus

_EMULATED_REASON = "no GPU: values were checked under the Triton interpreter, speed was not"
_FORWARD_CAUSES = {
    Fault.OUT_OF_DEVICE_MEMORY: "the candidate needs more device memory than there is",
    Fault.OUT_OF_HOST_MEMORY: "the candidate needs more host memory than its limit",
    Fault.ENDED_ITSELF: "the code ends the process; a forward must return its result",
    Fault.DEVICE_FAULT: "an access outside a tensor, or an assertion, in a kernel",
    Fault.DISK_FULL: "the candidate writes more than its limit to files",
    Fault.TOO_MANY_PROCESSES: "the candidate starts more processes and threads than its limit",
    Fault.TOO_MANY_FILES: "the candidate opens more files than its limit",
    Fault.TOO_MANY_LAUNCHES: "a loop of launches without end",
}
_END_CAUSES = {
    Fault.HANG_ON_HOST: "a loop that does not end",
    Fault.HANG_ON_DEVICE: "a kernel that does not end",
    Fault.STOPPED_ITSELF: "the code stopped its own process",
    Fault.ENDED_BY_SIGNAL: "an access outside a tensor, or code that ends the process",
    Fault.ENDED_ITSELF: "code that ends the process",
    Fault.KILLED: "something other than this server killed the process, in both of two runs",
    Fault.OUT_OF_HOST_MEMORY: "the candidate used up the machine's memory",
    Fault.OVER_CPU_TIME: "a loop that does not end, or more processes than help",
    Fault.BROKE_THE_CHANNEL: "the code wrote into a file descriptor that is not its own",
}
_BUILD_CAUSES = {
    "missing": "the source must define `class ModelNew(nn.Module)`",
    "import": "the worker's Python lacks that module: install it there, or do without",
    "triton_compile": "the interpreter and the compiler accept different things: only what "
    "triton.language defines may be used inside a kernel",
}
_OTHER_WEIGHTS = (
    "the weights are not the reference's: ModelNew's state_dict must have the names and shapes of "
    "Model's, so that they can be copied"
)


@dataclass(slots=True)
class Findings:
    """Filled as the evaluation goes on; usable wherever it stops."""

    policy: PrecisionPolicy
    rigor: Rigor
    device: DeviceFacts | None
    families: tuple[OperatorFamily, ...]
    trials: list[Trial] = field(default_factory=list[Trial])
    precision: PrecisionClass = PrecisionClass.NOT_CLASSIFIED
    launches: dict[str, int] = field(default_factory=dict[str, int])
    operators: dict[str, int] = field(default_factory=dict[str, int])
    flags: list[str] = field(default_factory=list[str])
    phases_ms: dict[str, float] = field(default_factory=dict[str, float])
    timing: Timing | None = None
    has_own_weights: bool = False
    """Whether the reference's weights could not be copied into the candidate."""
    transfer: Literal["device", "host"] = "host"
    phase: str = "start"

    @property
    def is_emulated(self) -> bool:
        """Whether what ran was not a GPU."""
        return self.device is None or self.device.kind == "emulated"

    def after_trials(self) -> Verdict:
        """Once every planned trial ran."""
        trials = tuple(self.trials)
        if not trials:
            return self.verdict(VerdictStatus.INFRA_ERROR, "No trial could be run.")
        if not all(trial.passed for trial in trials):
            cause = likely_cause(trials, self.precision, self.families)
            if self.has_own_weights:
                cause = _OTHER_WEIGHTS
            return self.verdict(VerdictStatus.WRONG, explain(trials), cause)
        if self._custom_kernel() == "none":
            self.flags.append("no custom kernel was launched: torch does all the work")
        worst = max(trial.error_ratio or 0.0 for trial in trials)
        text = (
            f"All {len(trials)} trials hold under `{self.policy.value}`; the largest RMS error is "
            f"{worst:.2g} times the reference's own."
        )
        if self.is_emulated:
            text += " Emulated on the CPU: not run on a GPU, no speed measured."
            return self.verdict(VerdictStatus.EMULATED_PASS, text)
        return self.verdict(VerdictStatus.PASS, text)

    def after_user_error(self, error: UserCodeError) -> Verdict:
        """The candidate's code raised, and its process lived on."""
        text = error.message + (f"\n{error.traceback}" if error.traceback else "")
        fault = fault_of_error(error)
        if error.phase in ("forward", "outputs") and error.kind != "triton_compile":
            cause = _FORWARD_CAUSES.get(fault)
            text = f"`forward` raised in {self.phase}: {text}"
            return self.verdict(VerdictStatus.CRASHED, text, cause, fault)
        cause = _BUILD_CAUSES.get(error.kind) or _FORWARD_CAUSES.get(fault)
        return self.verdict(VerdictStatus.BUILD_FAILED, f"Did not build: {text}", cause, fault)

    def after_end_of_process(self, error: WorkerTimedOut | WorkerDied | ProtocolError) -> Verdict:
        """The candidate's process is gone."""
        fault = fault_of_end(error)
        cause = _END_CAUSES.get(fault)
        if isinstance(error, WorkerTimedOut):
            if self.is_emulated and fault is Fault.HANG_ON_HOST:
                cause = f"{cause}, or shapes too large for the interpreter: try smaller ones"
            text = f"{error}; all of its processes were killed."
            return self.verdict(VerdictStatus.TIMED_OUT, text, cause, fault)
        return self.verdict(VerdictStatus.CRASHED, f"{error}.", cause, fault)

    def without_room(self, text: str) -> Verdict:
        """The reference did not fit beside the candidate, and fits since that is gone."""
        fault = Fault.OUT_OF_HOST_MEMORY if self.is_emulated else Fault.OUT_OF_DEVICE_MEMORY
        said = f"Beside this candidate there is no memory for the reference: {text}"
        return self.verdict(VerdictStatus.CRASHED, said, _FORWARD_CAUSES[fault], fault)

    def verdict(
        self,
        status: VerdictStatus,
        explanation: str,
        cause: str | None = None,
        fault: Fault | None = None,
    ) -> Verdict:
        """The verdict of that status with all that is known."""
        reason = None if self.timing else "not correct, so not timed"
        if status is VerdictStatus.EMULATED_PASS:
            reason = _EMULATED_REASON
        return Verdict(
            status=status,
            explanation=explanation,
            likely_cause=cause,
            fault=fault,
            rigor=self.rigor,
            precision_policy=self.policy,
            precision_class=self.precision,
            custom_kernel=self._custom_kernel(),
            launches=self.launches,
            torch_operators=self.operators,
            flags=tuple(self.flags),
            trials=tuple(self.trials),
            timing=self.timing,
            timing_reason=reason,
            phases_ms=self.phases_ms,
            transfer=self.transfer,
            device=self.device,
        )

    def _custom_kernel(self) -> Literal["none", "partial", "all", "unknown"]:
        if not self.trials:
            return "unknown"
        if not self.launches:
            return "none"
        return "partial" if self.operators else "all"
