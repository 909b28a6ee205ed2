"""SandboxReport: what stands between code that runs here and this machine, with proof."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from egg_mcp.settings import SandboxMode
from egg_mcp.vocabulary.record import Record

PropertyName = Literal[
    "fs_write",
    "fs_read",
    "net",
    "other_procs",
    "reaping",
    "limits",
    "kernel_surface",
    "gpu_devices",
]


class SandboxProperty(Record):
    """One promise about what code in the box cannot do."""

    name: PropertyName
    """Which."""
    state: Literal["enforced", "partial", "no"]
    """`partial`: see `why`."""
    by: tuple[str, ...] = ()
    """The mechanisms that hold it."""
    proof: str = ""
    """What was tried from inside a throw-away process, and what came of it."""
    why: str = ""
    """What is missing; empty when enforced."""


class SandboxReport(Record):
    """What the worker side found when it tried."""

    mode: SandboxMode
    """What was asked for."""
    tier: int = 0
    """2: namespaces and seccomp. 1: Landlock and seccomp. 0: a process group and deadlines."""
    layers: tuple[str, ...] = ()
    """What every worker is confined by."""
    properties: tuple[SandboxProperty, ...] = ()
    """All eight, in a fixed order."""
    failed: dict[str, str] = Field(default_factory=dict[str, str])
    """Layer -> why it cannot be had here."""
    fix: tuple[str, ...] = ()
    """Commands that would mend it."""
    not_defended: tuple[str, ...] = ()
    """What no tier holds back."""

    cuda: dict[str, str] = Field(default_factory=dict[str, str])
    """`state`: whether a CUDA context came up in the box; `said`: what the driver said."""
    landlock_abi: int = 0
    """Version of Landlock that the kernel has; 0 for none."""

    @property
    def short(self) -> str:
        """One line for verdicts.

        >>> SandboxReport(mode="off").short
        'off: a process group, deadlines, capped output'
        """
        if not self.layers:
            return f"{self.mode}: a process group, deadlines, capped output"
        held = [one.name for one in self.properties if one.state == "enforced"]
        weak = [f"{one.name} {one.state}" for one in self.properties if one.state != "enforced"]
        text = f"tier {self.tier} ({', '.join(self.layers)}): {len(held)} of 8 properties enforced"
        return text + (f"; {', '.join(weak)}" if weak else "")

    @property
    def weak(self) -> tuple[SandboxProperty, ...]:
        """The properties that do not hold in full."""
        return tuple(one for one in self.properties if one.state != "enforced")
