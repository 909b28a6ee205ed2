"""EmulatedDriver: what Triton asks of a GPU driver, answered without a GPU.

The stock interpreter fails under `@triton.autotune` ("0 active drivers"): the autotuner asks the
driver for a benchmarker. This one runs each configuration once and calls them all equal.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

WARP_THREADS = 32
COMPUTE_CAPABILITY = 90


class EmulatedDriver:
    """Answers to Triton's questions about the active driver."""

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """A benchmarker that runs once and reports 1 ms for every quantile."""

        def run_once(call: Callable[[], object], **_: object) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return run_once

    def get_device_interface(self) -> Any:
        """Where `synchronize` and `Event` would be."""
        return torch.cpu

    def get_current_device(self) -> int:
        """Device 0."""
        return 0

    def get_current_stream(self, _device: int | None = None) -> int:
        """Stream 0."""
        return 0

    def get_current_target(self) -> Any:
        """An sm_90 GPU."""
        compiler = importlib.import_module("triton.backends.compiler")
        return compiler.GPUTarget("cuda", COMPUTE_CAPABILITY, WARP_THREADS)

    def get_active_torch_device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """`[1]` int32: nothing to flush."""
        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, _cache: torch.Tensor) -> None:
        """Nothing to flush."""


def install() -> bool:
    """Make it Triton's active driver; False where there is no triton."""
    try:
        runtime = importlib.import_module("triton.runtime.driver")
    except (ImportError, AttributeError):
        return False
    runtime.driver.set_active(EmulatedDriver())
    return True
