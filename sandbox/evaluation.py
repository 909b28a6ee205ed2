"""Evaluation: one candidate, from source to verdict. All decisions are made here or in the referee."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut, ZygoteDied
from egg_mcp.sandbox.compile_ahead import CompiledAhead
from egg_mcp.sandbox.device_mailboxes import drop_memory, share_memory
from egg_mcp.sandbox.findings import Findings
from egg_mcp.sandbox.launcher import Launcher
from egg_mcp.sandbox.referee import Referee, ReferenceRaised, is_own_doing, new_seed
from egg_mcp.sandbox.shared_file import SharedFile
from egg_mcp.sandbox.stopwatch import Stopwatch
from egg_mcp.sandbox.trial_plan import PlannedTrial, judged, plan_trials, precision_class
from egg_mcp.sandbox.worker_process import UserCodeError, WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.family import compute_operators
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor, Verdict, VerdictStatus

Report = Callable[[str], Awaitable[None]]

_SLACK_BYTES = 1 << 20
_ALONE_TRIAL = -2
_NOT_SENT = {"t": "other", "v": "nothing"}
"""In the place of inputs that a candidate's process did not send back: they do not match."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict and what goes into the store beside it."""

    verdict: Verdict
    printed: str = ""
    asm: dict[str, str] = field(default_factory=dict[str, str])


class CandidateEvaluation:
    """Runs one candidate against a warm referee, in a process of its own."""

    def __init__(
        self,
        referee: Referee,
        launcher: Launcher,
        settings: Settings,
        policy: PrecisionPolicy,
        rigor: Rigor,
        report: Report,
    ) -> None:
        self._referee = referee
        self._launcher = launcher
        self._settings = settings
        self._policy = policy
        self._rigor = rigor
        self._report = report
        self._found = Findings(policy, rigor, referee.worker.device, referee.families)

    async def run(self, source: str, compiled: CompiledAhead | None = None) -> Evaluation:
        """Judge this source.

        Args:
            source: the candidate's.
            compiled: what a compiler made of it meanwhile, if anything.

        Raises:
            SandboxError: the machine or the referee failed; nothing is said about the candidate.
        """
        await self._report("starting the candidate's process")
        try:
            async with self._phase("start"):
                worker = await WorkerProcess.start("candidate", self._launcher, self._settings)
        except WorkerDied as error:
            return Evaluation(self._after_end(error))
        try:
            if compiled is not None:
                async with self._phase("adopt"):
                    await self._adopt(worker, compiled)
            async with self._phase("start"):
                shared = await share_memory(self._referee, worker, self._settings)
            self._found.transfer = "device" if shared else "host"
            verdict = await self._judge(worker, source)
            asm = await self._asm(worker) if verdict.status is VerdictStatus.PASS else {}
            return Evaluation(verdict, worker.output.text(), asm)
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()
                await drop_memory(self._referee)

    async def _adopt(self, worker: WorkerProcess, compiled: CompiledAhead) -> None:
        with SharedFile("unused") as unused:
            fds = (compiled.file.readable_fd, unused.writable_fd)
            # If the candidate dies of it, `build` says so.
            with contextlib.suppress(UserCodeError, WorkerTimedOut, WorkerDied, ProtocolError):
                await self._ask(worker, "open_files", "build", fds=fds)
                await self._ask(worker, "adopt", "build", cache=compiled.cache)

    async def _judge(self, worker: WorkerProcess, source: str) -> Verdict:
        try:
            await self._build(worker, source)
            await self._run_trials(worker)
            if all(trial.passed for trial in self._found.trials):
                await self._measure(worker)
        except ReferenceRaised as error:
            return await self._after_reference_raised(worker, error)
        except UserCodeError as error:
            if error.role == "referee":
                raised = ReferenceRaised(f"The reference raised: {error.message}", error)
                return await self._after_reference_raised(worker, raised)
            return self._found.after_user_error(error).model_copy(
                update={"output_tail": worker.printed()}
            )
        except (WorkerTimedOut, WorkerDied, ProtocolError) as error:
            return self._after_end(error).model_copy(update={"output_tail": worker.printed()})
        return self._found.after_trials().model_copy(update={"output_tail": worker.printed()})

    def _after_end(self, error: WorkerTimedOut | WorkerDied | ProtocolError) -> Verdict:
        """What the end of the candidate's process says about it.

        Raises:
            ZygoteDied: nothing: all processes went together, or nobody knows how this one ended.
            SandboxError: nothing: the referee has gone, too.
        """
        if not self._launcher.is_running:
            raise ZygoteDied("the zygote died, and every worker with it") from error
        if isinstance(error, WorkerDied) and error.exit_code is None and not error.reason:
            raise ZygoteDied("the zygote does not say how the worker ended") from error
        if not self._referee.worker.is_running:
            if is_own_doing(error):
                said = f"The reference, which ran before, ended early: {error}."
                return self._found.verdict(VerdictStatus.REFERENCE_FAILED, said)
            raise error
        return self._found.after_end_of_process(error)

    async def _after_reference_raised(
        self, worker: WorkerProcess, error: ReferenceRaised
    ) -> Verdict:
        """The reference's failure; or the candidate's, if it held the memory that was lacking."""
        await worker.aclose()
        await drop_memory(self._referee)
        if error.lacks_memory and await self._reference_runs():
            return self._found.without_room(str(error))
        return self._found.verdict(VerdictStatus.REFERENCE_FAILED, str(error))

    async def _reference_runs(self) -> bool:
        with SharedFile("inbox") as inbox, SharedFile("unread") as unread:
            await self._referee.open_files(inbox, unread)
            try:
                await self._referee.prepare(_ALONE_TRIAL, "given", new_seed())
            except ReferenceRaised:
                return False
            await self._referee.ask("forget", trial=_ALONE_TRIAL)
            return True

    async def _build(self, worker: WorkerProcess, source: str) -> None:
        await self._report("building")
        async with self._phase("build"):
            with SharedFile("inbox") as inbox, SharedFile("outbox") as outbox:
                await self._referee.open_files(inbox, outbox)
                exported = await self._referee.ask("export_init")
                inbox.seal_size()
                fds = (inbox.readable_fd, outbox.writable_fd)
                await self._ask(worker, "open_files", "build", fds=fds)
                await self._ask(
                    worker,
                    "build",
                    "build",
                    source=source,
                    memory_share=self._settings.gpu_memory_share,
                    seed=self._referee.weight_seed,
                    init=exported["init"],
                    init_style=exported["init_style"],
                )
                reply = await self._ask(worker, "weights", "build", state=exported["state"])
        if reply.get("how") == "seed_only":
            names = ", ".join(map(str, reply.get("unmatched", ())))
            self._found.has_own_weights = True
            self._found.flags.append(
                f"weights could not be copied from the reference ({names[:300]} differ in name or "
                "shape): they come from the same seed instead"
            )

    async def _run_trials(self, worker: WorkerProcess) -> None:
        planned = plan_trials(self._rigor)
        for number, trial in enumerate(planned):
            await self._report(f"trial {number + 1} of {len(planned)}")
            phase = "first_call" if number == 0 else "trials"
            async with self._phase(phase):
                passed = await self._run_trial(worker, number, trial)
            if number == 0 and not passed and self._found.trials[0].error_ratio is None:
                return  # not even the structure holds: further trials would say the same

    async def _run_trial(self, worker: WorkerProcess, number: int, planned: PlannedTrial) -> bool:
        first = number == 0
        with SharedFile("inbox") as inbox, SharedFile("referee-out") as unread:
            await self._referee.open_files(inbox, unread)
            made = await self._referee.prepare(number, planned.inputs, planned.seed)
            if made.get("skipped"):
                self._found.flags.append(f"trial {planned.kind} skipped: {made['skipped']}")
                return True
            inbox.seal_size()
            room = int(made["expected_bytes"]) + int(made["input_bytes"]) + _SLACK_BYTES
            with SharedFile("outbox", room) as outbox:
                outbox.seal_size()
                phase = "first_call" if first else "trial"
                fds = (inbox.readable_fd, outbox.writable_fd)
                await self._ask(worker, "open_files", phase, fds=fds)
                called = await self._ask(
                    worker,
                    "call",
                    phase,
                    inputs=made["inputs"],
                    swap=planned.kind == "swapped",
                    # The last call, too: an autotuned kernel's first one counts its tuning.
                    max_launches=self._settings.max_launches,
                    audit=first or planned.kind == "repeat",
                    out_offset=0,
                )
                await self._referee.open_files(inbox, outbox)
                reply = await self._referee.judge(
                    number, called.get("outputs"), called.get("inputs_after", _NOT_SENT)
                )
        self._note(planned, made, called, reply, first=first)
        return self._found.trials[-1].passed

    def _note(
        self,
        planned: PlannedTrial,
        made: dict[str, Any],
        called: dict[str, Any],
        reply: dict[str, Any],
        *,
        first: bool,
    ) -> None:
        found = self._found
        found.trials.append(judged(planned, reply, self._policy))
        if planned.kind == "zero_mean":
            found.precision = precision_class(reply)
        if "launches" in called:
            found.launches = _counts(called["launches"])
            found.operators = compute_operators(_counts(called.get("operators")))
        if first:
            if called.get("aliases_input") and not made.get("aliases_input"):
                found.flags.append("an output shares memory with an input")
            if called.get("on_device") is False:
                found.flags.append("an output is not on the Problem's device")

    async def _measure(self, worker: WorkerProcess) -> None:
        if worker.device is None or worker.device.kind != "cuda":
            return
        async with self._phase("timing"):
            watch = Stopwatch(self._referee, worker, self._settings, self._rigor, self._policy)
            self._found.timing, trial = await watch.measure(self._report)
        self._found.trials.append(trial)

    async def _asm(self, worker: WorkerProcess) -> dict[str, str]:
        try:
            reply = await self._ask(worker, "asm", "trial")
        except (UserCodeError, WorkerTimedOut, WorkerDied, ProtocolError):
            return {}  # nice to have; the verdict stands without it
        return {str(kind): str(text) for kind, text in dict(reply.get("asm", {})).items()}

    async def _ask(
        self, worker: WorkerProcess, op: str, phase: str, **fields: Any
    ) -> dict[str, Any]:
        deadline_s = {
            "build": self._settings.build_deadline_s,
            "first_call": self._settings.first_call_deadline_s,
            "trial": self._settings.trial_deadline_s,
        }[phase]
        return await worker.call(op, phase=phase, deadline_s=deadline_s, **fields)

    @contextlib.asynccontextmanager
    async def _phase(self, name: str) -> AsyncGenerator[None]:
        self._found.phase = name
        began = time.perf_counter()
        try:
            yield
        finally:
            spent_ms = (time.perf_counter() - began) * 1e3
            phases = self._found.phases_ms
            phases[name] = round(phases.get(name, 0.0) + spent_ms, 1)


def _counts(value: object) -> dict[str, int]:
    """Name -> count, from a reply that may be anything; at most 50 entries."""
    if not isinstance(value, dict):
        return {}
    pairs = cast("dict[object, object]", value).items()
    return dict([(str(name)[:200], count) for name, count in pairs if isinstance(count, int)][:50])
