"""Candidate: the worker in which untrusted code runs. Knows no reference and no tolerance."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from egg_mcp.sandbox.worker import assembly, compiler, cuda_stand_in, tensors
from egg_mcp.sandbox.worker.audit import CompileCounter, LaunchCounter, OperatorCounter
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.mailbox import Mailboxes
from egg_mcp.sandbox.worker.op_error import OpError, user_code
from egg_mcp.sandbox.worker.seeds import seed_all
from egg_mcp.sandbox.worker.tensors import Other
from egg_mcp.sandbox.worker.timing import Rotation, block_of
from egg_mcp.sandbox.worker.trial import shares_storage
from egg_mcp.sandbox.worker.user_module import execute, require
from egg_mcp.sandbox.worker.values import leaves, map_tensors
from egg_mcp.sandbox.worker.values import tensors as all_tensors

MAX_UNMATCHED = 10

Message = dict[str, Any]


class Candidate:
    """Answers the parent about one candidate."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.files = Mailboxes(grows_inbox=False)
        # Absolute and of a real file: Triton reads a kernel's source from it.
        self.user_file = str(Path("candidate.py").absolute())
        self._model: Any = None
        self._previous: Any = None
        self._launches = LaunchCounter()
        self._launches.install()
        compiles = CompileCounter()
        compiles.install()
        self._rotation = Rotation(device, compiles)
        if device.emulated:
            cuda_stand_in.install()
        self.operations = {
            "adopt": self.adopt,
            "build": self.build,
            "weights": self.weights,
            "call": self.call,
            "time_prepare": self.time_prepare,
            "time_block": self.time_block,
            "warm": self.warm,
            "asm": self.asm,
        }

    @contextlib.contextmanager
    def _user(self, phase: str) -> Generator[None]:
        stand_in = cuda_stand_in.CudaStandIn() if self.device.emulated else contextlib.nullcontext()
        with user_code(phase, self.user_file), stand_in:
            yield

    def adopt(self, request: Message) -> Message:
        """Take what was compiled ahead, from the inbox, into Triton's cache."""
        with user_code("import", self.user_file):
            compiler.adopt(request["cache"], self.files)
        return {}

    def build(self, request: Message) -> Message:
        """Import the source as module `candidate` and construct its ModelNew.

        Raises:
            OpError: phase `import` or `construct`.
        """
        self._model = self._previous = None
        init = tensors.decode(request["init"], self.files.inbox, self.device.torch)
        for name, leaf in leaves(init, "init_inputs"):
            if isinstance(leaf, Other):
                raise OpError("bad_init", f"{name} is a {leaf.type_name}, which cannot travel")
        self.device.synchronize()
        self.device.limit_memory(request.get("memory_share"))
        source = request["source"]
        with user_code("import", self.user_file, kind="syntax"):
            Path(self.user_file).write_bytes(source.encode("utf-8"))
        with self._user("import"):
            module = execute(source, "candidate", self.user_file, "import")
        model_class = require(module, "ModelNew", "import")
        with self._user("construct"):
            seed_all(request["seed"])
            if request.get("init_style") == "keyword":
                model = model_class(**init)
            else:
                model = model_class(*init)
            if not isinstance(model, torch.nn.Module):
                raise TypeError("ModelNew is not a torch.nn.Module")
            self._model = model.to(self.device.torch)
            self.device.synchronize()
        return {}

    def weights(self, request: Message) -> Message:
        """Copy the reference's weights in where all names, shapes and dtypes agree."""
        state = tensors.decode(request["state"], self.files.inbox, self.device.torch)
        if not isinstance(state, dict):
            raise OpError("bad_tree", "state is not a dict")
        with self._user("weights"):
            own = dict(self._built.state_dict())
            unmatched = [
                name for name in {**state, **own} if _form(state, name) != _form(own, name)
            ]
            if unmatched:
                return {"how": "seed_only", "unmatched": unmatched[:MAX_UNMATCHED]}
            with torch.no_grad():
                for name, values in all_entries(state):
                    own[name].copy_(values)
            self.device.synchronize()
        return {"how": "copied" if state else "none", "unmatched": []}

    def call(self, request: Message) -> Message:
        """One forward on inputs from the inbox; outputs and inputs after it to the outbox."""
        inputs = tensors.decode(request["inputs"], self.files.inbox, self.device.torch)
        if request.get("swap") and self._previous is not None:
            inputs = swapped(self._previous, inputs)
        # A forward may run on a stream of its own: what it is given is there already.
        self.device.synchronize()
        self._previous = inputs
        counter = OperatorCounter(self._launches) if request.get("audit") else None
        given = all_tensors(inputs)
        model = self._built
        limit = self._launches.at_most(request.get("max_launches"))
        auditing = counter or contextlib.nullcontext()
        with self._user("forward"), torch.no_grad(), limit, auditing:
            started = time.perf_counter()
            outputs = model(*inputs)
            self.device.finish()
            call_ms = (time.perf_counter() - started) * 1000
        reply: Message = {"call_ms": call_ms}
        with user_code("outputs", self.user_file):
            found = all_tensors(outputs)
            reply["on_device"] = all(one.device == self.device.torch for one in found)
            reply["aliases_input"] = shares_storage(found, given)
            reply |= self._deliver(outputs, inputs, request["out_offset"])
        if counter is not None:
            reply["launches"] = dict(self._launches.counts)
            reply["operators"] = dict(counter.counts)
        return reply

    def _deliver(self, outputs: Any, inputs: Any, offset: int) -> Message:
        outbox = self.files.outbox
        outbox.rewind()
        tree, end = tensors.encode(outputs, outbox, offset, parameters=False)
        after, end = tensors.encode(inputs, outbox, end)
        # The referee reads device memory as it is, on a stream of its own.
        self.device.synchronize()
        return {"outputs": tree, "inputs_after": after, "end": end}

    def time_prepare(self, request: Message) -> Message:
        """Take the input sets to time on."""
        # The old sets' memory first: two generations may not fit.
        self._rotation.replace([])
        inbox, place = self.files.inbox, self.device.torch
        self._rotation.replace([tensors.decode(tree, inbox, place) for tree in request["sets"]])
        # The inbox is the referee's again once this is answered.
        self.device.synchronize()
        return {}

    def time_block(self, request: Message) -> Message:
        """Time some calls; write the output of the one to keep."""
        model = self._built
        with self._user("forward"):
            timed = self._rotation.time(lambda inputs: model(*inputs), block_of(request))
        tree: Message | None = None
        if request.get("keep") is not None:
            outbox = self.files.outbox
            outbox.rewind()
            with user_code("outputs", self.user_file):
                offset = request["out_offset"]
                tree, _ = tensors.encode(timed.kept, outbox, offset, parameters=False)
                self.device.synchronize()
        return {"ms": timed.calls_ms, "drained_ms": timed.drained_ms, "kept": tree}

    def warm(self, request: Message) -> Message:
        """Call until it runs steadily and compiles nothing any more."""
        model = self._built
        with self._user("forward"):
            calls = self._rotation.warm(
                lambda inputs: model(*inputs), request["min_ms"], request["max_s"]
            )
        return {"calls": calls}

    def asm(self, _request: Message) -> Message:
        """What Triton compiled, as text; nothing when emulated."""
        return {"asm": {} if self.device.emulated else assembly.read()}

    @property
    def _built(self) -> Any:
        if self._model is None:
            raise OpError("bad_request", "no ModelNew yet: send build first")
        return self._model


def _form(state: dict[str, Any], name: str) -> object:
    value = state.get(name)
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return None if value is None else "other"


def all_entries(state: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a state dict by name."""
    return [(name, value) for name, value in state.items() if isinstance(value, torch.Tensor)]


def swapped(previous: Any, inputs: Any) -> Any:
    """The previous call's tensors with the new contents: same pointer, same `_version`.

    A candidate that remembers outputs by either gives a stale one. Falls back to the new tensors
    where any shape, stride or dtype differs.
    """
    old, new = all_tensors(previous), all_tensors(inputs)

    def forms(values: list[torch.Tensor]) -> list[object]:
        return [(one.shape, one.stride(), one.dtype) for one in values]

    if forms(old) != forms(new):
        return inputs
    for target, source in zip(old, new, strict=True):
        target.data.copy_(source)
    kept = iter(old)
    return map_tensors(inputs, lambda _: next(kept))
