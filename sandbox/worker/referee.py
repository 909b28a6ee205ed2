"""Referee: the worker that holds the reference, the expected values and the tolerances."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Any

from egg_mcp.sandbox.worker import tensors, trial
from egg_mcp.sandbox.worker.audit import CompileCounter
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.mailbox import Mailbox, Mailboxes
from egg_mcp.sandbox.worker.op_error import OpError, user_code
from egg_mcp.sandbox.worker.reference import Reference
from egg_mcp.sandbox.worker.screening import Screening, elements
from egg_mcp.sandbox.worker.shared_file import NoRoom
from egg_mcp.sandbox.worker.timing import Rotation, block_of
from egg_mcp.sandbox.worker.trial import Trial
from egg_mcp.sandbox.worker.values import is_real_float, size_bytes
from egg_mcp.sandbox.worker.values import tensors as all_tensors

MEMORY_SHARE = 1 / 8
"""Of the free device memory, what mailboxes may take: the candidate needs the rest."""
MEMORY_SLACK_BYTES = 1 << 20
"""For what alignment takes between tensors."""

Message = dict[str, Any]


class Loaded:
    """A reference with the model that trials run on."""

    def __init__(self, reference: Reference, weight_seed: int) -> None:
        self.reference = reference
        self.weight_seed = weight_seed
        self.rebuild()

    def rebuild(self) -> None:
        """The model as first constructed: forwards may have moved running statistics."""
        self.model, self.init = self.reference.construct(self.weight_seed)

    @property
    def init_style(self) -> str:
        """How the constructor takes `init`."""
        return "keyword" if isinstance(self.init, dict) else "positional"


class Referee:
    """Answers the parent about one Problem."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.files = Mailboxes(grows_inbox=True)
        self._loaded: Loaded | None = None
        self._trials: dict[int, Trial] = {}
        self._input_bytes = 0
        self._output_bytes: int | None = None
        compiles = CompileCounter()
        compiles.install()
        self._rotation = Rotation(device, compiles)
        self.operations = {
            "load": self.load,
            "screen": self.screen,
            "export_init": self.export_init,
            "prepare": self.prepare,
            "judge": self.judge,
            "forget": self.forget,
            "time_prepare": self.time_prepare,
            "time_block": self.time_block,
            "time_facts": self.time_facts,
            "warm": self.warm,
            "make_memory": self.make_memory,
            "drop_memory": self.drop_memory,
        }

    @property
    def user_file(self) -> str:
        """The reference's file name, for tracebacks."""
        return self._loaded.reference.user_file if self._loaded else ""

    @property
    def _current(self) -> Loaded:
        if self._loaded is None:
            raise OpError("bad_request", "no reference yet: send load first")
        return self._loaded

    def load(self, request: Message) -> Message:
        """Run the reference's source and construct its Model; trials of another one go."""
        self._loaded = None
        self._trials.clear()
        self._rotation.replace([])
        reference = Reference(request["source"], request.get("name", ""), self.device)
        loaded = Loaded(reference, request["weight_seed"])
        inputs = reference.inputs(request["weight_seed"])
        self._loaded = loaded
        self._input_bytes, self._output_bytes = size_bytes(inputs), None
        forms = {"inputs": inputs, "init": loaded.init}
        nowhere = Mailbox(NoRoom())
        return {
            "parameter_count": elements(loaded.model),
            **{name: tensors.encode(value, nowhere, 0)[0] for name, value in forms.items()},
            "init_style": loaded.init_style,
        }

    def screen(self, request: Message) -> Message:
        """See whether the Problem can be judged at all."""
        loaded = self._current
        screening = Screening(loaded.reference, loaded.model)
        report = screening.report(request["seeds"], request["weight_seed2"])
        if report["outputs"]:
            self._output_bytes = sum(one.get("size_bytes", 0) for one in report["outputs"])
        loaded.rebuild()
        loaded.reference.release()
        return report

    def export_init(self, _request: Message) -> Message:
        """Write what ModelNew is constructed with, and the weights, from the inbox's start."""
        loaded = self._current
        loaded.rebuild()
        inbox = self._fresh_inbox()
        init, end = tensors.encode(loaded.init, inbox, 0)
        state, end = tensors.encode(dict(loaded.model.state_dict()), inbox, end)
        self.device.synchronize()
        return {"init": init, "state": state, "end": end, "init_style": loaded.init_style}

    def prepare(self, request: Message) -> Message:
        """Make a trial's inputs and expected outputs; write the inputs to the inbox."""
        loaded, kind = self._current, request["kind"]
        inputs = loaded.reference.inputs(request["seed"])
        varied = trial.vary(inputs, kind, request["seed"])
        del inputs
        skipped, made = None, None
        try:
            if kind != "given" and not any(is_real_float(one) for one in all_tensors(varied)):
                skipped = "no floating-point input to vary"
            else:
                made = trial.prepare(loaded.reference, loaded.model, varied)
                skipped = None if kind == "given" else made.unfit
        except OpError as error:
            if kind == "given":
                raise
            skipped = f"the reference raises on it: {error.message[:300]}"
        if made is not None and skipped is None:
            self._trials[request["trial"]] = made
            self._output_bytes = made.output_bytes
        tree, end = tensors.encode(varied, self._fresh_inbox(), request["offset"])
        self.device.synchronize()
        return {
            "inputs": tree,
            "end": end,
            "expected_bytes": made.output_bytes if made else 0,
            "input_bytes": size_bytes(varied),
            "skipped": skipped,
            "oracle": made.oracle if made else None,
            "mutated": sorted(made.mutated) if made else [],
            "aliases_input": made.aliases_input if made else False,
        }

    def judge(self, request: Message) -> Message:
        """Hold a candidate's outputs, copied once, to a trial's expected ones."""
        held = self._trials.get(request["trial"])
        if held is None:
            raise OpError("bad_request", f"no trial {request['trial']!r}")
        outbox, place = self.files.outbox, self.device.torch
        # A timed call's inputs do not come back.
        after: Any = held.inputs
        try:
            outputs = tensors.decode(request["outputs"], outbox, place)
            if request.get("inputs_after") is not None:
                after = tensors.decode(request["inputs_after"], outbox, place)
        finally:
            # What is not written anew is no answer to the next trial.
            if outbox.memory is not None:
                outbox.memory.wipe()
                self.device.synchronize()
        return held.judge(outputs, after)

    def forget(self, request: Message) -> Message:
        """Let a trial go."""
        self._trials.pop(request["trial"], None)
        return {}

    def time_prepare(self, request: Message) -> Message:
        """Make input sets to time on; write them to the inbox."""
        end = request["offset"]
        # The old sets' memory first: two generations may not fit.
        self._rotation.replace([])
        sets = [self._current.reference.inputs(seed) for seed in request["seeds"]]
        trees: list[Message] = []
        inbox = self._fresh_inbox()
        for inputs in sets:
            tree, end = tensors.encode(inputs, inbox, end)
            trees.append(tree)
        self.device.synchronize()
        self._rotation.replace(sets)
        return {"sets": trees, "end": end}

    def time_block(self, request: Message) -> Message:
        """Time the reference under the user's own precision settings."""
        with user_code("forward", self.user_file):
            timed = self._rotation.time(self._forward, block_of(request))
        return {"ms": timed.calls_ms, "drained_ms": timed.drained_ms}

    def warm(self, request: Message) -> Message:
        """Call the reference until it runs steadily."""
        with user_code("forward", self.user_file):
            calls = self._rotation.warm(self._forward, request["min_ms"], request["max_s"])
        return {"calls": calls}

    def time_facts(self, _request: Message) -> Message:
        """What the parent chooses the number of input sets by."""
        reference = self._current.reference
        if self._output_bytes is None:
            inputs = reference.inputs(self._current.weight_seed)
            self._output_bytes = size_bytes(reference.run(self._current.model, inputs))
        sets = self._rotation.sets
        inputs = sets[0] if sets else reference.inputs(self._current.weight_seed)
        return {
            "l2_bytes": self.device.l2_bytes(),
            "free_bytes": self.device.free_bytes(),
            "input_bytes": size_bytes(inputs),
            "output_bytes": self._output_bytes,
        }

    def make_memory(self, _request: Message) -> Message:
        """Make device mailboxes for the evaluation that begins, if they fit.

        Returns:
            `sizes` in bytes and `descriptors` of inbox and outbox, or `why` there are none.
        """
        wanted = self._memory_wanted()
        if sum(wanted) > (self.device.free_bytes() or 0) * MEMORY_SHARE:
            return {"why": f"{sum(wanted)} bytes are too much of what is free on the device"}
        try:
            sizes, descriptors = self.files.make_memory(wanted)
        except OpError as error:
            return {"why": error.message}
        return {"sizes": sizes, "descriptors": descriptors}

    def drop_memory(self, _request: Message) -> Message:
        """Let the device mailboxes go."""
        self.files.drop_memory()
        return {}

    def _memory_wanted(self) -> list[int]:
        """Bytes for an inbox of every kind of content, and for an outbox of one call."""
        loaded = self._current
        taken, given = self._input_bytes, self._output_bytes or 0
        weights = size_bytes(loaded.init) + size_bytes(dict(loaded.model.state_dict()))
        # As many input sets to time on as outgrow the L2 cache three times; at least two.
        sets = max(2 * taken, min(64 * taken, taken + 3 * (self.device.l2_bytes() or 0)))
        return [max(weights, sets) + MEMORY_SLACK_BYTES, taken + given + MEMORY_SLACK_BYTES]

    def _fresh_inbox(self) -> Mailbox:
        inbox = self.files.inbox
        inbox.rewind()
        return inbox

    def _forward(self, inputs: list[Any]) -> Any:
        return self._current.model(*inputs)
