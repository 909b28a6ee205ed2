"""Device: what this worker computes on."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
import platform
from collections.abc import Callable
from typing import Any

import torch

EMULATED_NAME = "CPU (Triton interpreter)"


class Device:
    """One GPU, or the CPU that stands in for one."""

    def __init__(self, emulated: bool) -> None:
        self.emulated = emulated
        self.torch = torch.device("cpu") if emulated else torch.device("cuda", 0)
        if not emulated:
            torch.cuda.set_device(0)
        self.tell: Callable[[str], None] | None = None
        """Takes where this process is now, for whoever must say what it hangs on."""
        # Bound now: user code may replace the attribute later.
        self._synchronize = torch.cuda.synchronize

    def synchronize(self) -> None:
        """Wait for everything on the device, all streams."""
        if not self.emulated:
            self._synchronize()

    def finish(self) -> None:
        """Wait for everything on the device, and let it be known that we wait."""
        if self.tell is not None:
            self.tell("device")
        self.synchronize()
        if self.tell is not None:
            self.tell("host")

    def limit_memory(self, share: float | None) -> None:
        """Have torch's allocator refuse more than this share of the device's memory."""
        if share is not None and not self.emulated:
            torch.cuda.set_per_process_memory_fraction(share, 0)

    def free_bytes(self) -> int | None:
        """Device memory that is free; None when emulated."""
        return None if self.emulated else torch.cuda.mem_get_info()[0]

    def l2_bytes(self) -> int | None:
        """L2 cache; None when emulated or unknown."""
        if self.emulated:
            return None
        return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", None)

    def facts(self) -> dict[str, Any]:
        """As the `device` of the ready frame."""
        software = {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "triton": _triton_version(),
        }
        if self.emulated:
            hardware = dict.fromkeys(
                (
                    "uuid",
                    "arch",
                    "multiprocessors",
                    "memory_bytes",
                    "l2_bytes",
                    "shared_memory_per_block_bytes",
                    "driver",
                )
            )
            return {"kind": "emulated", "name": EMULATED_NAME, **hardware, **software}
        properties = torch.cuda.get_device_properties(0)
        shared = getattr(properties, "shared_memory_per_block_optin", None)
        return {
            "kind": "cuda",
            "name": properties.name,
            "uuid": str(properties.uuid) if hasattr(properties, "uuid") else None,
            "arch": f"sm_{properties.major}{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": self.l2_bytes(),
            "shared_memory_per_block_bytes": shared,
            "driver": torch.version.cuda,
            **software,
        }


def _triton_version() -> str | None:
    try:
        return str(importlib.import_module("triton").__version__)
    except ImportError:
        return None
