"""Audit: what a forward really runs: Triton launches and the torch operators left."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import functools
import importlib
from collections import Counter
from collections.abc import Generator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from egg_mcp.sandbox.worker.op_error import OpError


class OperatorCounter(TorchDispatchMode):
    """While entered, counts aten operators by name, without namespace and overload.

    What Triton's interpreter does with torch inside a launch is not the forward's own work and
    is left out.
    """

    def __init__(self, launches: LaunchCounter | None = None) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._launches = launches

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its whole compiler at the first operator: a second in every process.
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Count the operator, then run it."""
        if self._launches is None or not self._launches.running:
            self.counts[operator_name(str(func))] += 1
        return func(*args, **(kwargs or {}))


def operator_name(full: str) -> str:
    """The name alone.

    >>> operator_name("aten.add.Tensor")
    'add'
    """
    parts = full.split(".")
    return parts[1] if len(parts) > 1 else full


class LaunchCounter:
    """Counts Triton launches by kernel name, from `install` on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.running = 0
        self._left: int | None = None

    @contextlib.contextmanager
    def at_most(self, most: int | None) -> Generator[None]:
        """Count from zero; inside, past `most` launches, every further one raises."""
        self.counts.clear()
        self._left = most
        try:
            yield
        finally:
            self._left = None

    def install(self) -> None:
        """Wrap Triton's two ways to launch. Before user code: it may keep what it finds."""
        for module, owner, method in (
            ("triton.runtime.jit", "JITFunction", "run"),
            ("triton.runtime.interpreter", "GridExecutor", "__call__"),
        ):
            try:
                found = getattr(importlib.import_module(module), owner)
            except (ImportError, AttributeError):
                continue
            setattr(found, method, self._counted(getattr(found, method)))

    def _spend_one(self) -> None:
        if self._left is None:
            return
        if self._left == 0:
            count = sum(self.counts.values())
            raise OpError("too_many_launches", f"over {count} launches in one forward", "forward")
        self._left -= 1

    def _counted(self, launch: Any) -> Any:
        @functools.wraps(launch)
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("warmup"):
                self._spend_one()
                self.counts[str(getattr(kernel.fn, "__name__", kernel.fn))] += 1
            self.running += 1
            try:
                return launch(kernel, *args, **kwargs)
            finally:
                self.running -= 1

        return run


class CompileCounter:
    """Counts Triton compilations, where this triton has a hook for it."""

    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        """Hook in before user code."""
        try:
            runtime = importlib.import_module("triton.knobs").runtime
        except (ImportError, AttributeError):
            return
        previous = getattr(runtime, "jit_post_compile_hook", None)

        def compiled(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return previous(*args, **kwargs) if previous else None

        runtime.jit_post_compile_hook = compiled
