"""CudaStandIn: lets code that says `cuda` run on CPU tensors. For emulated candidates only."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

CUDA_0 = torch.device("cuda", 0)
CPU = torch.device("cpu")

PROPERTIES = SimpleNamespace(
    name="Emulated GPU",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 << 30,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=227 << 10,
    shared_memory_per_multiprocessor=228 << 10,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    L2_cache_size=50 << 20,
    warp_size=32,
)
"""A candidate may choose its grid by these; they are an H100's."""


class Stream:
    """A stream on which everything has always finished."""

    cuda_stream = 0
    device = CUDA_0

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def _nothing(self, *_: object, **__: object) -> None: ...

    synchronize = wait_event = wait_stream = _nothing

    def query(self) -> bool:
        """Whether all work is done."""
        return True


class Event(Stream):
    """An event that has always happened; no time passes."""

    def record(self, *_: object) -> None:
        """Nothing to record."""

    wait = record

    def elapsed_time(self, _end: Event) -> float:
        """0 ms: nothing is timed without a GPU."""
        return 0.0


def _itself(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return tensor


def _always(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


def _no_context(*_: object, **__: object) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _on_cpu(value: object) -> object:
    is_cuda = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
    return CPU if is_cuda else value


class CudaStandIn(TorchFunctionMode):
    """While entered, `cuda` means the CPU, and every tensor says it is on `cuda:0`."""

    answers: dict[Any, Callable[..., object]] = {  # noqa: RUF012 - a constant table
        _getter("is_cuda"): _always(True),
        _getter("is_cpu"): _always(False),
        _getter("device"): _always(CUDA_0),
        torch.Tensor.get_device: _always(0),
        torch.Tensor.cuda: _itself,
        torch.Tensor.pin_memory: _itself,
        torch.Tensor.record_stream: _always(None),
    }

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Answer for the GPU, or pass the call on with `cuda` replaced."""
        answer = self.answers.get(func)
        if answer is not None:
            return answer(*args, **(kwargs or {}))
        named = {key: _on_cpu(value) for key, value in (kwargs or {}).items()}
        if isinstance(named.get("device"), int):
            named["device"] = CPU
        return func(*(_on_cpu(value) for value in args), **named)


def install() -> None:
    """Replace the questions of `torch.cuda` that have an answer without a GPU."""
    replaced: dict[str, object] = {
        "is_available": _always(True),
        "is_bf16_supported": _always(True),
        "synchronize": _always(None),
        "empty_cache": _always(None),
        "current_device": _always(0),
        "set_device": _always(None),
        "device_count": _always(1),
        "device": _no_context,
        "device_of": _no_context,
        "get_device_name": _always(PROPERTIES.name),
        "get_device_capability": _always((PROPERTIES.major, PROPERTIES.minor)),
        "get_device_properties": _always(PROPERTIES),
        "mem_get_info": _always((PROPERTIES.total_memory, PROPERTIES.total_memory)),
        "Stream": Stream,
        "Event": Event,
        "stream": _no_context,
        "current_stream": Stream,
        "default_stream": Stream,
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    original = _device.DeviceContext.__init__

    # `with torch.device("cuda")` goes below every mode, so CudaStandIn never sees its device.
    def on_cpu(self: Any, device: Any) -> None:
        original(self, _on_cpu(device))

    _device.DeviceContext.__init__ = on_cpu
