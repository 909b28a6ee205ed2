"""Timing: calls on rotating inputs, each between two CUDA events."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Generator
from typing import Any

import torch

from egg_mcp.sandbox.worker.audit import CompileCounter
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.values import map_tensors

MIN_WARM_CALLS = 10
QUIET_CALLS = 3
SPIN_CYCLES_PER_US = 1500

Forward = Callable[[list[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Block:
    """What one `time_block` asks for."""

    calls: int
    start: int = 0
    """Calls take input sets `start`, `start + 1`, ... in turn."""
    keep: int | None = None
    """Index of the call whose output is wanted."""
    spin_us: int = 0
    """Busy GPU time ahead of the first call, so that the CPU gets ahead."""


@dataclasses.dataclass
class Timed:
    """What a block gave."""

    calls_ms: list[float] = dataclasses.field(default_factory=list)
    """Each call, between two events on the current stream."""
    drained_ms: list[float] = dataclasses.field(default_factory=list)
    """Each call, until the whole device was idle."""
    kept: Any = None
    """A copy of the wanted output."""


class Rotation:
    """Input sets in turn, and the last outputs held so that their addresses rotate too."""

    def __init__(self, device: Device, compiles: CompileCounter) -> None:
        self._device = device
        self._compiles = compiles
        self._held: collections.deque[Any] = collections.deque(maxlen=1)
        self.sets: list[list[Any]] = []
        # Bound before user code runs: it may replace the attributes.
        self._event, self._grad_off = torch.cuda.Event, torch.no_grad
        self._record, self._elapsed_ms = self._event.record, self._event.elapsed_time
        self._sleep: Any = getattr(torch.cuda, "_sleep", None)

    def replace(self, sets: list[list[Any]]) -> None:
        """Take new input sets."""
        self._held.clear()
        self.sets = sets
        self._held = collections.deque(maxlen=max(1, len(sets)))

    def time(self, forward: Forward, block: Block) -> Timed:
        """Time a block of calls.

        Raises:
            OpError: `no_cuda` when emulated, `bad_request` without input sets.
        """
        self._check()
        events = [[self._event(enable_timing=True) for _ in range(3)] for _ in range(block.calls)]
        timed = Timed()
        with self._grad_off(), _no_collection():
            self._device.synchronize()
            if block.spin_us and self._sleep is not None:
                self._sleep(block.spin_us * SPIN_CYCLES_PER_US)
            for call, (before, after, drained) in enumerate(events):
                inputs = self.sets[(block.start + call) % len(self.sets)]
                self._record(before)
                output = forward(inputs)
                self._record(after)
                self._device.synchronize()
                # All streams are idle now: what `after` did not wait for shows as a gap.
                self._record(drained)
                self._device.synchronize()
                timed.calls_ms.append(self._elapsed_ms(before, after))
                timed.drained_ms.append(self._elapsed_ms(before, drained))
                self._held.append(output)
                if call == block.keep:
                    # A copy: an honest candidate may reuse one output buffer for every call.
                    timed.kept = map_tensors(output, lambda tensor: tensor.detach().clone())
        return timed

    def warm(self, forward: Forward, min_ms: float, max_s: float) -> int:
        """Call until clocks are up and nothing compiles any more; how many calls that took."""
        self._check()
        gc.collect()
        started, calls, quiet, compiled = time.perf_counter(), 0, 0, self._compiles.count
        with self._grad_off():
            while True:
                self._held.append(forward(self.sets[calls % len(self.sets)]))
                self._device.synchronize()
                calls += 1
                quiet = quiet + 1 if self._compiles.count == compiled else 0
                compiled = self._compiles.count
                spent_s = time.perf_counter() - started
                steady = calls >= MIN_WARM_CALLS and quiet >= QUIET_CALLS
                if spent_s >= max_s or (steady and spent_s * 1000 >= min_ms):
                    return calls

    def _check(self) -> None:
        if self._device.emulated:
            raise OpError("no_cuda", "without a GPU nothing is timed")
        if not self.sets:
            raise OpError("bad_request", "no input sets: send time_prepare first")


def block_of(request: dict[str, Any]) -> Block:
    """The block a request asks for; `spin` is microseconds, or true for 100."""
    spin = request.get("spin") or 0
    return Block(
        calls=int(request["calls"]),
        start=int(request.get("start", 0)),
        keep=request.get("keep"),
        spin_us=100 if spin is True else int(spin),
    )


@contextlib.contextmanager
def _no_collection() -> Generator[None]:
    # No collection first: with torch imported one takes 0.1 s, and the server's clock, which
    # bounds the samples from outside, would count it as the block's.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
