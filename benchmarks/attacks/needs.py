"""Needs: what an attack must find on this machine to be tried at all."""

from __future__ import annotations

import platform

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.listeners import other_address
from egg_mcp.sandbox.machine_memory import available_bytes

_ROOMY_BYTES = 6 << 30


def unmet(attack: Attack, *, has_gpu: bool) -> str:
    """What is missing, as `Attack.needs` says it; empty when nothing is."""
    there = {
        "": True,
        "gpu only": has_gpu,
        "x86_64 only": platform.machine() == "x86_64",
        "another address": other_address() is not None,
        "6 GiB of free memory": (available_bytes() or 0) > _ROOMY_BYTES,
    }
    return "" if there[attack.needs] else attack.needs
