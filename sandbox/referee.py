"""Referee: the process that holds the reference, its inputs and what is expected."""

from __future__ import annotations

import secrets
import signal
from typing import Any, Self

from pydantic import ValidationError

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.shared_file import SharedFile
from egg_mcp.sandbox.worker_process import UserCodeError, WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.family import OperatorFamily, families_of
from egg_mcp.vocabulary.problem import Problem, Screening

_SEED_BITS = 48
_UNFAITHFUL = ("bfloat16", "float8")
"""Dtypes that Triton's own interpreter computes wrongly (triton#4972, #8322)."""

_MEMORY_KINDS = ("out_of_device_memory", "out_of_host_memory")

_LOAD_ADVICE = {
    "syntax": "Mend the syntax and call design_algorithm again.",
    "import": "The worker's Python lacks that module: install it there, name another Python with "
    "--worker-python, or leave the import out.",
    "missing": "KernelBench form needs `class Model(nn.Module)` and `get_inputs()`; "
    "`get_init_inputs()` is optional.",
    "construct": "`Model(*get_init_inputs())` must work.",
    "inputs": "`get_inputs()` must return the arguments of `forward` as a list.",
}


def new_seed() -> int:
    """A seed nobody can foresee."""
    return secrets.randbits(_SEED_BITS)


def is_own_doing(error: Exception) -> bool:
    """Whether the reference's own code ended its process, as far as that can be told.

    A SIGKILL that this server did not send may have come from anybody.
    """
    if isinstance(error, WorkerDied):
        return error.role == "referee" and error.exit_code not in (None, -signal.SIGKILL)
    return isinstance(error, WorkerTimedOut | ProtocolError) and error.role == "referee"


class ReferenceRaised(Exception):
    """The reference failed after it had been accepted.

    Attributes:
        lacks_memory: it found too little memory: a candidate beside it may hold the rest.
    """

    def __init__(self, message: str, error: UserCodeError) -> None:
        super().__init__(message)
        self.lacks_memory = error.kind in _MEMORY_KINDS


class Referee:
    """A worker that is trusted with the reference. Warm: it serves many candidates in turn."""

    def __init__(self, worker: WorkerProcess, problem: Problem, settings: Settings) -> None:
        self.problem = problem
        self.worker = worker
        self.weight_seed = new_seed()
        self.families: tuple[OperatorFamily, ...] = ()
        self.forms: dict[str, Any] = {}
        """Trees of `inputs` and `init` without their bytes, and `init_style`."""
        self._settings = settings

    @classmethod
    async def start(
        cls, problem: Problem, launcher: Launcher, settings: Settings
    ) -> tuple[Self, Screening]:
        """Start the process, load the reference, and run it by itself.

        Returns:
            The referee and what the screening found; unless that is `ok`, the referee is closed.

        Raises:
            WorkerUnavailable: the worker side cannot run here.
            WorkerDied: it was killed.
        """
        worker = await WorkerProcess.start("referee", launcher, settings)
        referee = cls(worker, problem, settings)
        found = (await referee._screen()).model_copy(update={"device": worker.device})
        screening = _as_faithful(found)
        referee.families = screening.families
        if screening.status != "ok":
            await referee.aclose()
        return referee, screening

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """One request under the referee's own deadline. Raises as `WorkerProcess.call`."""
        return await self.worker.call(
            op,
            phase=f"the reference's {op}",
            deadline_s=self._settings.referee_deadline_s,
            **fields,
        )

    async def prepare(self, trial: int, kind: str, seed: int) -> dict[str, Any]:
        """Make a trial's inputs and what is expected for them.

        Raises:
            ReferenceRaised: the reference fails on inputs of its own making.
        """
        try:
            return await self.ask("prepare", trial=trial, kind=kind, seed=seed, offset=0)
        except UserCodeError as error:
            raise ReferenceRaised(
                f"The reference, which ran before, raised on other inputs (seed {seed}): "
                f"{error.message}",
                error,
            ) from error

    async def judge(
        self, trial: int, outputs: object, inputs_after: object | None
    ) -> dict[str, Any]:
        """Hold outputs to what is expected, then let the trial go.

        Args:
            trial: as prepared.
            outputs: the tree a candidate sent: anything.
            inputs_after: its inputs after the call, or None where they do not come back.
        """
        try:
            reply = await self.ask("judge", trial=trial, outputs=outputs, inputs_after=inputs_after)
        except UserCodeError as error:
            if error.kind in _MEMORY_KINDS:
                raise ReferenceRaised(
                    f"No memory left to judge in: {error.message}", error
                ) from error
            # A tree that cannot be read is the candidate's doing.
            reply = {"structure": f"what came back cannot be read: {error.message}"}
        await self.ask("forget", trial=trial)
        return reply

    async def open_files(self, inbox: SharedFile, outbox: SharedFile) -> None:
        """Hand over the files of the next exchange: it writes the first, reads the second."""
        await self.ask("open_files", fds=(inbox.writable_fd, outbox.readable_fd))

    async def aclose(self) -> None:
        """End the process."""
        await self.worker.aclose()

    async def _screen(self) -> Screening:
        try:
            loaded = await self.ask(
                "load",
                source=self.problem.source,
                name="reference",
                weight_seed=self.weight_seed,
            )
            self.forms = {name: loaded.get(name) for name in ("inputs", "init", "init_style")}
            found = await self.ask(
                "screen", seeds=[new_seed(), new_seed()], weight_seed2=new_seed()
            )
        except UserCodeError as error:
            return _failed(_in_words(error))
        except WorkerTimedOut as error:
            return _failed(
                f"{error}. Use smaller shapes"
                + (" (there is no GPU here)." if self._is_emulated else ".")
            )
        except (WorkerDied, ProtocolError) as error:
            if not is_own_doing(error):
                raise
            return _failed(f"The reference ended its process: {error}.")
        try:
            fields = {name: found[name] for name in Screening.model_fields if name in found}
            fields["families"] = families_of(found.get("operators", {}))
            return Screening.model_validate(fields)
        except (ValidationError, TypeError, AttributeError):
            return _failed("The reference's process gave an answer of its own making.")

    @property
    def _is_emulated(self) -> bool:
        return self.worker.device is not None and self.worker.device.kind == "emulated"


def _as_faithful(screening: Screening) -> Screening:
    """The screening, refused where emulation would compute the Problem wrongly."""
    emulated = screening.device is not None and screening.device.kind == "emulated"
    values = (*screening.inputs, *screening.outputs)
    odd = {one.dtype for one in values if one.dtype and one.dtype.startswith(_UNFAITHFUL)}
    if screening.status != "ok" or not emulated or not odd:
        return screening
    text = (
        f"There is no GPU here, and Triton's interpreter computes {', '.join(sorted(odd))} wrongly: "
        "no verdict is better than a false one. Open this session on a server with a GPU."
    )
    return screening.model_copy(update={"status": "infra_error", "explanation": text})


def _failed(explanation: str) -> Screening:
    return Screening(status="reference_failed", explanation=explanation)


def _in_words(error: UserCodeError) -> str:
    advice = _LOAD_ADVICE.get(error.kind, "`Model.forward(*get_inputs())` must work by itself.")
    where = f" in {error.phase}" if error.phase else ""
    trace = f"\n{error.traceback}" if error.traceback else ""
    return f"The reference failed{where}: {error.message} {advice}{trace}"
