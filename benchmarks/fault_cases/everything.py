"""Everything: the fault cases by group."""

from __future__ import annotations

from benchmarks.fault_cases import (
    in_candidate,
    in_machine,
    in_reference,
    in_server,
    in_state,
    killed,
    on_channel,
    on_gpu,
    over_limits,
    told,
)
from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import GPU_ONLY, NEEDS_BOX, Case

GROUPS: dict[str, tuple[Case, ...]] = {
    "candidate": in_candidate.CASES,
    "channel": on_channel.CASES,
    "limits": over_limits.CASES,
    "killed": killed.CASES,
    "reference": in_reference.CASES,
    "machine": in_machine.CASES,
    "server": in_server.CASES,
    "told": told.CASES,
    "state": in_state.CASES,
    "gpu": on_gpu.CASES,
}


def unmet(case: Case, bench: Bench) -> str:
    """What this machine lacks for the case; empty where nothing."""
    if case.needs == GPU_ONLY and bench.device != "cuda":
        return GPU_ONLY
    if case.needs == NEEDS_BOX and not bench.has_box:
        return NEEDS_BOX
    return ""
