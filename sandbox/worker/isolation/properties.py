"""Properties: what the attempts, seen from inside and outside, say about a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from egg_mcp.sandbox.worker.isolation.attempt import Attempt, Result
from egg_mcp.sandbox.worker.isolation.host_attempts import (
    FILE_READING,
    FILE_WRITING,
    GPUS,
    NETWORK,
    PROCESSES,
)
from egg_mcp.sandbox.worker.isolation.kernel_attempts import KERNEL
from egg_mcp.sandbox.worker.isolation.limit_attempts import LIMITS, SHARED_MEMORY

State = Literal["enforced", "partial", "no"]

ATTEMPTS: dict[str, dict[str, Attempt]] = {
    "fs_write": FILE_WRITING,
    "fs_read": FILE_READING,
    "net": NETWORK,
    "other_procs": PROCESSES,
    "limits": LIMITS,
    "kernel_surface": KERNEL,
    "gpu_devices": GPUS,
}
NAMES = (
    *("fs_write", "fs_read", "net", "other_procs"),
    *("reaping", "limits", "kernel_surface", "gpu_devices"),
)
_MECHANISMS: dict[str, dict[str, str]] = {
    "fs_write": {
        "namespaces": "a root of its own, read-only",
        "uid": "a user of its own",
        "landlock": "Landlock",
    },
    "fs_read": {
        "namespaces": "a root of its own that shows little",
        "uid": "a user of its own",
        "landlock": "Landlock",
    },
    "net": {
        "namespaces": "a network of its own, down",
        "landlock": "Landlock: no TCP",
        "seccomp": "seccomp: unix sockets only",
    },
    "other_procs": {
        "namespaces": "a process namespace",
        "uid": "a user of its own",
        "landlock": "Landlock: no signals or tracing outwards, no /proc of others",
        "seccomp": "seccomp: no tracing",
    },
    "reaping": {"namespaces": "process 1 takes all others with it"},
    "limits": {"limits": "resource limits", "namespaces": "sized /tmp and /dev/shm"},
    "kernel_surface": {"seccomp": "seccomp: calls refused", "uid": "a user of its own"},
    "gpu_devices": {"namespaces": "a /dev of its own", "landlock": "Landlock"},
}
_ADOPTION = "orphans are adopted and killed"
_SHARED_WHY = (
    "memory in shared mappings and memfd is not counted by any of these limits; only a watch "
    "on the box's memory from outside bounds it"
)
_STOPPABLE_WHY = "code in the box can signal its keeper, and so stop the clearing up"


@dataclass(frozen=True)
class Property:
    """One thing that a box keeps, or does not.

    Attributes:
        name: one of `NAMES`.
        state: `enforced`; `partial`, see `why`; `no`.
        by: what keeps it.
        proof: what was tried and seen.
        why: what is missing; empty where nothing is.
    """

    name: str
    state: State
    by: tuple[str, ...]
    proof: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "by": list(self.by),
            "proof": self.proof,
            "why": self.why,
        }


def judge(
    layers: frozenset[str], results: Mapping[str, Mapping[str, Result]], has_emptied: bool
) -> list[Property]:
    """The properties, in the order of `NAMES`.

    Args:
        layers: what was in force.
        results: of each property's attempts, by property and name.
        has_emptied: whether a daemon was seen to end with its box.
    """
    judged = {name: _judged(name, layers, results[name]) for name in ATTEMPTS}
    can_stop_keeper = results["other_procs"]["signal_process"].got_through
    judged["reaping"] = _reaping(layers, has_emptied, can_stop_keeper)
    return [judged[name] for name in NAMES]


def unknown(why: str) -> list[Property]:
    """The properties where no box could be opened at all."""
    return [Property(name, "no", (), "no box could be opened", why) for name in NAMES]


def _judged(name: str, layers: frozenset[str], results: Mapping[str, Result]) -> Property:
    by = tuple(text for layer, text in _MECHANISMS[name].items() if layer in layers)
    through = {each: result for each, result in results.items() if result.got_through}
    refused = [each for each in results if each not in through]
    proof = f"{len(refused)} of {len(results)} attempts refused"
    if refused:
        proof += ": " + ", ".join(f"{each} ({results[each].said})" for each in refused)
    why = "; ".join(f"{each}: {result.said}" for each, result in through.items())
    if SHARED_MEMORY in through:
        why += f" ({_SHARED_WHY})"
    if not by:
        missing = " or ".join(_MECHANISMS[name])
        return Property(name, "no", (), proof, f"needs {missing}" + (f"; {why}" if why else ""))
    if not through:
        return Property(name, "enforced", by, proof, "")
    state: State = "partial" if refused else "no"
    return Property(name, state, by, proof, why)


def _reaping(layers: frozenset[str], has_emptied: bool, can_stop_keeper: bool) -> Property:
    tried = "a daemon in a session of its own, forked twice, deaf to SIGTERM"
    by = (*(text for layer, text in _MECHANISMS["reaping"].items() if layer in layers), _ADOPTION)
    if not has_emptied:
        return Property("reaping", "no", (), f"{tried}: it outlived its box by 2 s", "see proof")
    proof = f"{tried}: gone when its box ended"
    if "namespaces" in layers:
        return Property("reaping", "enforced", by[:1], proof, "")
    if can_stop_keeper:
        return Property("reaping", "partial", by, proof, _STOPPABLE_WHY)
    return Property("reaping", "enforced", by, proof, "")
