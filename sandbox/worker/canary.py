"""Canary: a trusted worker that says whether the device still computes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Any

import torch

from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.op_error import OpError

ELEMENTS = 1 << 16


class Canary:
    """Answers one question."""

    user_file = ""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.operations = {"sing": self.sing}

    def sing(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Compute a sum whose value is known, on the device; say how much memory is free.

        Raises:
            OpError: `sick`: the device answered with another value.
        """
        line = torch.arange(ELEMENTS, dtype=torch.float64, device=self.device.torch)
        total = int((line * 2 + 1).sum().item())
        self.device.synchronize()
        if total != ELEMENTS**2:
            raise OpError("sick", f"the device added {ELEMENTS} odd numbers up to {total}")
        return {"free_bytes": self.device.free_bytes()}
