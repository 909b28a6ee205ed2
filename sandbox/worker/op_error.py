"""OpError: why an operation failed, as text that can travel."""

from __future__ import annotations

import contextlib
import errno
import traceback
from collections.abc import Generator
from typing import Any

MAX_MESSAGE_CHARS = 2000
MAX_TRACEBACK_CHARS = 6000
MAX_CAUSES = 8

BUILD_ERRORS = frozenset({"CompilationError", "PTXASError", "OutOfResources", "AutotunerError"})


_BY_ERRNO = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "disk_full",
    errno.EMFILE: "too_many_files",
    errno.ENFILE: "too_many_files",
    errno.EAGAIN: "too_many_processes",
    errno.ENOMEM: "out_of_host_memory",
}
_BY_WORDS = (
    ("can't start new thread", "too_many_processes"),
    ("DefaultCPUAllocator: can't allocate memory", "out_of_host_memory"),
    ("DefaultCPUAllocator: not enough memory", "out_of_host_memory"),
    ("CUDA out of memory", "out_of_device_memory"),
    ("CUDA error: out of memory", "out_of_device_memory"),
    ("Triton Error [CUDA]: out of memory", "out_of_device_memory"),
    ("CUDA error:", "device_fault"),
    ("Triton Error [CUDA]:", "device_fault"),
    ("CUBLAS_STATUS_EXECUTION_FAILED", "device_fault"),
)
"""What torch and Triton say; both raise a plain RuntimeError, or a subclass of it."""


class OpError(Exception):
    """A failure with a kind the parent can act on. Holds text only: no frames, no tensors."""

    def __init__(self, kind: str, message: str, phase: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.phase = phase
        self.message = message[:MAX_MESSAGE_CHARS]
        self.trace = trace

    def reply(self) -> dict[str, Any]:
        """As the `error` of a reply."""
        return {
            "kind": self.kind,
            "phase": self.phase,
            "message": self.message,
            "traceback": self.trace,
        }


@contextlib.contextmanager
def user_code(phase: str, user_file: str, kind: str = "exception") -> Generator[None]:
    """Run the user's code inside: whatever it raises, `SystemExit` too, becomes an OpError.

    Args:
        phase: what the code was doing.
        user_file: only its frames are shown.
        kind: for exceptions that have no kind of their own.
    """
    try:
        yield
    except OpError:
        raise
    except BaseException as error:  # noqa: BLE001 - user code must never end the loop
        raise from_exception(error, phase, user_file, kind) from None


def from_exception(
    error: BaseException, phase: str, user_file: str, kind: str = "exception"
) -> OpError:
    """The OpError for something that user code raised."""
    return OpError(_kind(error, phase, kind), _message(error), phase, _trace(error, user_file))


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < MAX_CAUSES:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _kind(error: BaseException, phase: str, otherwise: str) -> str:
    if not isinstance(error, Exception):
        return "exit"
    names = {
        base.__name__ if base.__module__.startswith("triton") else ""
        for link in _causes(error)
        for base in type(link).__mro__
    }
    if names & BUILD_ERRORS:
        return "triton_compile"
    exhausted = next(filter(None, map(_exhausted, _causes(error))), None)
    if exhausted is not None:
        return exhausted
    if isinstance(error, ImportError) and phase in ("import", "construct"):
        return "import"
    return otherwise


def _exhausted(error: BaseException) -> str | None:
    """Which resource ran out, or that the device has faulted; None for any other exception."""
    if type(error).__name__ == "OutOfMemoryError":
        return "out_of_device_memory"
    if isinstance(error, MemoryError):
        return "out_of_host_memory"
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    if isinstance(error, RuntimeError):
        text = _line(error)
        return next((kind for words, kind in _BY_WORDS if words in text), None)
    return None


def _line(error: BaseException) -> str:
    # A hostile __str__ may raise, even SystemExit.
    try:
        lines = traceback.format_exception_only(type(error), error)
    except BaseException:  # noqa: BLE001
        return f"{type(error).__name__}: (its message cannot be printed)"
    # Of a SyntaxError the last line says what; the ones before say where.
    if isinstance(error, SyntaxError):
        lines = [*lines[-1:], *lines[:-1]]
    return "".join(lines).strip()


def _message(error: BaseException) -> str:
    first, *causes = [_line(link) for link in _causes(error)]
    half = MAX_MESSAGE_CHARS // 2
    if not causes:
        return first[:MAX_MESSAGE_CHARS]
    return f"{first[:half]}\nCaused by: {causes[-1][:half]}"[:MAX_MESSAGE_CHARS]


def _trace(error: BaseException, user_file: str) -> str:
    lines: list[str] = []
    try:
        for link in reversed(_causes(error)):
            frames = traceback.extract_tb(link.__traceback__)
            own = [frame for frame in frames if frame.filename == user_file]
            lines += [
                f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()[:200]}"
                for frame in own[-20:]
            ]
    except BaseException:  # noqa: BLE001 - a traceback is a courtesy, never a failure
        return ""
    return "\n".join(lines)[-MAX_TRACEBACK_CHARS:]
