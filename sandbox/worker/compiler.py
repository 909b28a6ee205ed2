"""Compiler: compiles a candidate's Triton kernels for a GPU that it never touches.

While another evaluation has the device, the candidate's `forward` runs here on fake tensors: torch
computes shapes only, and each launch compiles and stops there. What Triton's cache holds then is
handed to the same candidate's own worker. Whatever fails here fails in silence: that kernel is
compiled later, on the way.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from egg_mcp.sandbox.worker import tensors
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.mailbox import Mailboxes
from egg_mcp.sandbox.worker.tensors import Other, Unwritten
from egg_mcp.sandbox.worker.user_module import execute, require
from egg_mcp.sandbox.worker.values import map_leaves

WARP_THREADS = 32
MOST_CACHE_FILES = 2_000

Message = dict[str, Any]


class Compiler:
    """Answers one question: what does Triton compile for this candidate?"""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.files = Mailboxes(grows_inbox=False)
        self.user_file = str(Path("candidate.py").absolute())
        self.operations = {"compile": self.compile}

    def compile(self, request: Message) -> Message:
        """Run the candidate on shapes alone; write Triton's cache to the outbox.

        Args:
            request: `source`; `arch` as 90 for sm_90; trees of `inputs` and `init` without
                bytes; `init_style`.

        Returns:
            `cache`: path below the cache folder, offset and size of each file; `kernels`: how
            many launches were compiled; `ended`: `whole`, or the exception that ended it early.
        """
        compiled = _launches_only_compile(request["arch"])
        Path(self.user_file).write_bytes(request["source"].encode("utf-8"))
        try:
            with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"), torch.no_grad():
                self._forward(request)
            ended = "whole"
        except BaseException as error:  # noqa: BLE001 - what is compiled by now is worth having
            ended = type(error).__name__
        return {"cache": self._deliver(), "kernels": len(compiled), "ended": ended}

    def _forward(self, request: Message) -> None:
        nothing = self.files.inbox
        init, inputs = (
            map_leaves(tensors.decode(request[name], nothing, self.device.torch), _fake)
            for name in ("init", "inputs")
        )
        module = execute(request["source"], "candidate", self.user_file, "import")
        model_class = require(module, "ModelNew", "import")
        keyword = request.get("init_style") == "keyword"
        model = model_class(**init) if keyword else model_class(*init)
        model(*inputs)

    def _deliver(self) -> list[Message]:
        folder = Path(os.environ["TRITON_CACHE_DIR"])
        cache: list[Message] = []
        end = 0
        for path in sorted(folder.rglob("*"))[:MOST_CACHE_FILES]:
            if not path.is_file():
                continue
            content = path.read_bytes()
            if not self.files.outbox.file.reserve(end + len(content)):
                break
            self.files.outbox.file.write(end, memoryview(content))
            name = str(path.relative_to(folder))
            cache.append({"path": name, "offset": end, "nbytes": len(content)})
            end += len(content)
        return cache


def adopt(cache: list[Message], files: Mailboxes) -> None:
    """In the candidate's own worker: put what the compiler delivered into Triton's cache."""
    folder = Path(os.environ["TRITON_CACHE_DIR"])
    for entry in cache:
        content = bytearray(entry["nbytes"])
        files.inbox.file.read(entry["offset"], memoryview(content))
        target = folder / entry["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _fake(leaf: Any) -> Any:
    """A tensor of that form, no memory behind it."""
    if isinstance(leaf, Unwritten):
        return torch.empty(leaf.shape, dtype=leaf.dtype)
    return None if isinstance(leaf, Other) else leaf


def _launches_only_compile(arch: int) -> list[str]:
    """Have Triton compile for that architecture and never launch; returns what it compiles."""
    jit: Any = importlib.import_module("triton.runtime.jit")
    autotuner: Any = importlib.import_module("triton.runtime.autotuner")
    driver: Any = importlib.import_module("triton.runtime.driver").driver
    driver.set_active(_Target(arch))
    compiled: list[str] = []
    launch = jit.JITFunction.run

    def compile_only(kernel: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["warmup"] = True
        args = tuple(_stand_in(jit, value) for value in args)
        launch(kernel, *args, **{name: _stand_in(jit, value) for name, value in kwargs.items()})
        compiled.append(str(getattr(kernel.fn, "__name__", "")))

    def every_configuration(tuner: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("grid", None)
        kwargs.pop("warmup", None)
        tuner.warmup(*args, grid=(1,), **kwargs)

    jit.JITFunction.run = compile_only
    autotuner.Autotuner.run = every_configuration
    return compiled


def _stand_in(jit: Any, value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return jit.MockTensor(value.dtype, list(value.shape))
    return value


class _Target:
    """What Triton asks of a driver before it compiles; there is no device."""

    def __init__(self, arch: int) -> None:
        self._arch = arch

    def get_current_target(self) -> Any:
        """The GPU to compile for."""
        compiler = importlib.import_module("triton.backends.compiler")
        return compiler.GPUTarget("cuda", self._arch, WARP_THREADS)

    def get_current_device(self) -> int:
        """Device 0."""
        return 0

    def get_current_stream(self, _device: int | None = None) -> int:
        """Stream 0."""
        return 0
