"""What can go wrong, as one tree.

EggError
|- RequestError        the caller can mend it: shown to the model as a tool error
|  |- UnknownSession, UnknownJob, UnknownCandidate, UnknownGuideline
|  |- StageOrderError  a stage was called before its entry condition holds
|  |- InvalidSource    source text that cannot be Python, or is over its limit
|  |- InvalidReference a reference that is not in KernelBench form
|  `- FileRefused      a file outside the workspace, unreadable, or named over HTTP
|- SandboxError        the machine failed, never the candidate
|  |- WorkerUnavailable no Python with torch, or it did not come up
|  |- SandboxRefused   the box holds less than was asked for
|  |- ZygoteDied       the process that workers are forked from is gone
|  |- DeviceSick       the device does not pass its canary
|  |- WorkerDied       the worker ended without an answer
|  |- WorkerTimedOut   a phase ran past its deadline
|  `- ProtocolError    a frame that breaks the format
|- StateError          the state folder cannot be used
|  |- StateUnwritable, StateFull, StateTooNew
`- KnowledgeError      a guideline page breaks the format

A candidate that does not compile, is wrong, hangs or is slow is none of these: it is a Verdict.
"""


class EggError(Exception):
    """Every error this package raises on purpose."""


class RequestError(EggError):
    """The request must change; the message says what was wrong, what is allowed, what next."""


class UnknownSession(RequestError):
    """No session of that id is known to this state folder, or to this principal."""


class UnknownJob(RequestError):
    """No job of that id is known to this state folder."""


class UnknownCandidate(RequestError):
    """The session has no candidate of that number."""


class UnknownGuideline(RequestError):
    """No guideline of that id in that stage."""


class StageOrderError(RequestError):
    """A stage's entry condition does not hold; the message names the missing call."""


class InvalidSource(RequestError):
    """Source text that cannot be stored or compiled as Python."""


class InvalidReference(RequestError):
    """A reference that is not in KernelBench form."""


class FileRefused(RequestError):
    """A file that this server will not read."""


class SandboxError(EggError):
    """The worker side failed; the candidate is not to blame.

    Attributes:
        fault: one of `egg_mcp.vocabulary.fault.Fault`, by value.
    """

    fault = "machine"


class WorkerUnavailable(SandboxError):
    """The worker's Python has no torch, or it did not become ready in time."""

    fault = "worker_unavailable"


class SandboxRefused(WorkerUnavailable):
    """The isolation that was asked for cannot be had here; the message says what mends it."""

    fault = "sandbox_refused"


class ZygoteDied(SandboxError):
    """The process that workers are forked from is gone; the next request starts another."""

    fault = "zygote_died"


class DeviceSick(SandboxError):
    """After a fault the device does not compute a known value; nothing is run on it."""

    fault = "device_sick"


class WorkerDied(SandboxError):
    """The worker process ended before it answered.

    Attributes:
        exit_code: as `Popen.returncode`: negative for a signal; None when not known.
        output_tail: the end of what the process printed.
        reason: the Fault, by value, where more is known than the exit code tells.
        role: what the worker was: `referee`, `candidate`, ...
    """

    fault = "reference_died"

    def __init__(
        self,
        message: str,
        exit_code: int | None = None,
        output_tail: str = "",
        reason: str = "",
        role: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.role = role
        self.exit_code = exit_code
        self.output_tail = output_tail


class WorkerTimedOut(SandboxError):
    """A phase ran past its deadline and the worker's process group was killed.

    Attributes:
        phase: which deadline it was.
        deadline_s: its length.
        output_tail: the end of what the process printed.
        reason: the Fault, by value, as far as it can be told.
        role: what the worker was.
    """

    fault = "reference_died"

    def __init__(
        self,
        phase: str,
        deadline_s: float,
        output_tail: str = "",
        reason: str = "",
        role: str = "",
    ) -> None:
        super().__init__(f"{phase} took longer than {deadline_s:g} s")
        self.reason = reason
        self.role = role
        self.phase = phase
        self.deadline_s = deadline_s
        self.output_tail = output_tail


class ProtocolError(SandboxError):
    """What came is not in the format of `egg_mcp.sandbox.frames`, or no answer.

    Attributes:
        role: what the worker was.
    """

    fault = "reference_died"

    def __init__(self, message: str, role: str = "") -> None:
        super().__init__(message)
        self.role = role


class StateError(EggError):
    """The state folder cannot be used."""


class StateUnwritable(StateError):
    """The state folder cannot be written."""


class StateFull(StateError):
    """The disk below the state folder is full; nothing of the last write was kept."""


class StateTooNew(StateError):
    """A newer release wrote this state; this one must not touch it."""


class KnowledgeError(EggError):
    """A guideline page breaks the format; the message starts with file and line."""
