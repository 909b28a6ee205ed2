"""InputMaker: a Problem's inputs under a seed, made on the device where that gives the same kind."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from egg_mcp.sandbox.worker.seeds import seed_all
from egg_mcp.sandbox.worker.values import children, map_tensors, same_bytes, tensors

_CPU = torch.device("cpu")


class InputMaker:
    """Calls `get_inputs()`, always in the same way: the first call decides which.

    On a GPU it is called with the device as torch's default, if under one seed it then gives the
    same bits twice, and the same structure, shapes, strides and dtypes as on the CPU. What
    differs: the GPU's generator draws other numbers of the same distributions, and arithmetic in
    `get_inputs` rounds as a GPU does. What is made of numpy, of other generators or with a device
    named stays as it was. A `get_inputs` that looks where its tensors lie, or mixes tensors of
    both, runs on the CPU as ever.
    """

    def __init__(self, get_inputs: Callable[[], Any], device: torch.device) -> None:
        self._get_inputs = get_inputs
        self._device = device
        self._place: torch.device | None = _CPU if device.type == "cpu" else None

    def inputs(self, seed: int) -> list[Any]:
        """The inputs under this seed, on the device: the same seed, the same bits.

        Raises:
            TypeError: they are no list.
            Exception: what `get_inputs` raised.
        """
        if self._place is None:
            self._place = self._decided(seed)
        return self._made(seed, self._place)

    def _decided(self, seed: int) -> torch.device:
        on_cpu = self._made(seed, _CPU)
        # Whatever goes wrong on the device did not on the CPU. No second look later: a seed must
        # not give other inputs because memory was short once.
        with contextlib.suppress(Exception):
            on_device, again = (self._made(seed, self._device) for _ in range(2))
            pairs = zip(tensors(on_device), tensors(again), strict=True)
            if form(on_device) == form(on_cpu) and all(same_bytes(*pair) for pair in pairs):
                return self._device
        return _CPU

    def _made(self, seed: int, place: torch.device) -> list[Any]:
        seed_all(seed)
        with torch.device(place) if place.type != "cpu" else contextlib.nullcontext():
            inputs: Any = self._get_inputs()
        if not isinstance(inputs, (list, tuple)):
            name = type(inputs).__name__
            raise TypeError(f"get_inputs() returns {name}, not a list")
        return list(map_tensors(inputs, lambda one: one.detach().to(self._device)))


def form(value: Any) -> Any:
    """What must not depend on where values are made: structure, types, shapes, strides, dtypes.

    >>> form([torch.zeros(2, 3), 7]) == form([torch.ones(2, 3), 8])
    True
    """
    if isinstance(value, torch.Tensor):
        return type(value), tuple(value.shape), value.stride(), value.dtype
    entries = children(value)
    if entries is None:
        return type(value)
    return type(value), [(subscript, form(entry)) for subscript, entry in entries]
