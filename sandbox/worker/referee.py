"""Referee: the worker that holds the reference, the expected values and the tolerances."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Any

from egg_mcp.sandbox.worker import tensors, trial
from egg_mcp.sandbox.worker.audit import CompileCounter
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.op_error import OpError, user_code
from egg_mcp.sandbox.worker.reference import Reference
from egg_mcp.sandbox.worker.screening import Screening, elements
from egg_mcp.sandbox.worker.shared_file import NoRoom, SharedFiles
from egg_mcp.sandbox.worker.timing import Rotation, block_of
from egg_mcp.sandbox.worker.trial import Trial
from egg_mcp.sandbox.worker.values import is_real_float, size_bytes
from egg_mcp.sandbox.worker.values import tensors as all_tensors

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
        self.files = SharedFiles(grows_inbox=True)
        self._loaded: Loaded | None = None
        self._trials: dict[int, Trial] = {}
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
        forms = {"inputs": inputs, "init": loaded.init}
        return {
            "parameter_count": elements(loaded.model),
            **{name: tensors.encode(value, NoRoom(), 0)[0] for name, value in forms.items()},
            "init_style": loaded.init_style,
        }

    def screen(self, request: Message) -> Message:
        """See whether the Problem can be judged at all."""
        loaded = self._current
        screening = Screening(loaded.reference, loaded.model)
        report = screening.report(request["seeds"], request["weight_seed2"])
        loaded.rebuild()
        loaded.reference.release()
        return report

    def export_init(self, _request: Message) -> Message:
        """Write what ModelNew is constructed with, and the weights, from the inbox's start."""
        loaded = self._current
        loaded.rebuild()
        init, end = tensors.encode(loaded.init, self.files.inbox, 0)
        state, end = tensors.encode(dict(loaded.model.state_dict()), self.files.inbox, end)
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
        tree, end = tensors.encode(varied, self.files.inbox, request["offset"])
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
        """Hold a candidate's outputs to a trial's expected ones."""
        held = self._trials.get(request["trial"])
        if held is None:
            raise OpError("bad_request", f"no trial {request['trial']!r}")
        outbox, place = self.files.outbox, self.device.torch
        outputs = tensors.decode(request["outputs"], outbox, place)
        # A timed call's inputs do not come back.
        after: Any = held.inputs
        if request.get("inputs_after") is not None:
            after = tensors.decode(request["inputs_after"], outbox, place)
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
        for inputs in sets:
            tree, end = tensors.encode(inputs, self.files.inbox, end)
            trees.append(tree)
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

    def _forward(self, inputs: list[Any]) -> Any:
        return self._current.model(*inputs)
