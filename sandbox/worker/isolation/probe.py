"""probe: which layers this host can give, and what a box with them withstands."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from egg_mcp.sandbox.worker.isolation import attempt, landlock, outside, remedies
from egg_mcp.sandbox.worker.isolation.attempt import Result, Targets
from egg_mcp.sandbox.worker.isolation.cuda_trial import make_context
from egg_mcp.sandbox.worker.isolation.limit_attempts import SHARED_MEMORY, leave_daemon
from egg_mcp.sandbox.worker.isolation.outside import Outside
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.properties import ATTEMPTS, Property, judge, unknown
from egg_mcp.sandbox.worker.isolation.trial_box import Outcome, open_once

_ATTACK_S = 20.0
_CUDA_S = 60.0
_SMALL_BYTES = 1 << 20
_SUSPECTS = ("seccomp", "landlock", "namespaces", "uid", "limits")
_OWN_ROOT = {"namespaces", "seccomp"}
_WATCHED = Result(False, "the watch on the machine's memory")
_WITHOUT_NAMESPACES = {"landlock", "seccomp"}


@dataclass(frozen=True)
class Attack:
    """A box that opened, and what was seen of the attack on it."""

    plan: BoxPlan
    results: dict[str, dict[str, Result]]
    has_emptied: bool


def probe(plan: BoxPlan, cuda: bool, watched: bool = False) -> dict[str, Any]:
    """Find the layers of the plan that this host gives, and attack a box that has them.

    Forks; to be called where there is one thread. Leaves no process, file or mount. The box's
    sizes are small for the attack, so that filling them is quick.

    Args:
        plan: what is wanted.
        cuda: whether a CUDA context must come up in the box.
        watched: whether the caller ends a box that takes too much of the machine's memory:
            what no limit of a process counts is held by that, then.

    Returns:
        Plain JSON: `layers` that work, `tier` (2 namespaces and seccomp; 1 Landlock and
        seccomp; 0 less), eight `properties`, `failed` layers with the reason, what would `fix`
        them, what is `not_defended`, `cuda` (`works`, `fails` or `not tried`).
    """
    failed: dict[str, str] = {}
    cuda_said = {"state": "not tried", "said": ""}
    if sys.platform != "linux":
        failed["box"] = f"needs Linux, this is {sys.platform}"
        return _report(frozenset(), unknown(failed["box"]), failed, cuda_said)
    with outside.put_up() as place:
        attack = _best(plan, place, failed)
        if attack is not None and cuda:
            cuda_said, culprit = _try_cuda(replace(attack.plan, limits=plan.limits), place)
            if culprit:
                failed[culprit] = f"CUDA does not work with it: {cuda_said['said']}"
                attack = _best(_without(attack.plan, culprit, place), place, failed)
    if attack is None:
        return _report(frozenset(), unknown(failed.get("box", "")), failed, cuda_said)
    if watched:
        attack.results["limits"][SHARED_MEMORY] = _WATCHED
    # An ordinary user stays who it is: the layer has nothing to do, and keeps nothing.
    layers = attack.plan.layers if os.geteuid() == 0 else attack.plan.layers - {"uid"}
    properties = judge(layers, attack.results, attack.has_emptied)
    return _report(attack.plan.layers, properties, failed, cuda_said)


def _report(
    layers: frozenset[str],
    properties: list[Property],
    failed: dict[str, str],
    cuda_said: dict[str, str],
) -> dict[str, Any]:
    return {
        "layers": sorted(layers),
        "tier": _tier(layers),
        "properties": [each.to_json() for each in properties],
        "failed": failed,
        "fix": remedies.fixes_for(failed),
        "not_defended": list(remedies.NOT_DEFENDED),
        "cuda": cuda_said,
        "landlock_abi": landlock.version() if sys.platform == "linux" else 0,
    }


def _tier(layers: frozenset[str]) -> int:
    if layers >= _OWN_ROOT:
        return 2
    return 1 if layers >= _WITHOUT_NAMESPACES else 0


def _best(plan: BoxPlan, place: Outside, failed: dict[str, str]) -> Attack | None:
    """Attack a box; without the layer that could not be had, until one opens."""
    limits = replace(plan.limits, disk_bytes=_SMALL_BYTES, shared_memory_bytes=_SMALL_BYTES)
    plan = _at_home(replace(plan, limits=limits), place)
    while True:
        place.reached()
        outcome = open_once(plan, functools.partial(_attack, place.targets(plan)), _ATTACK_S)
        if not outcome.failed and outcome.answer is not None:
            return Attack(plan, _seen(outcome, place.reached()), outcome.has_emptied)
        why = outcome.failed or f"box: the attack ended with wait status {outcome.status}"
        layer, _, reason = why.partition(": ")
        failed[layer] = reason
        if layer not in plan.layers:
            return None
        plan = _without(plan, layer, place)


def _without(plan: BoxPlan, layer: str, place: Outside) -> BoxPlan:
    return _at_home(replace(plan, layers=plan.layers - {layer}), place)


def _at_home(plan: BoxPlan, place: Outside) -> BoxPlan:
    """Without namespaces the folder to work in must be there."""
    if "namespaces" in plan.layers:
        return plan
    return replace(plan, scratch=str(place.scratch))


def _attack(targets: Targets, line: int) -> dict[str, dict[str, Any]]:
    """Inside: everything, the daemon first, as long as there may be more processes."""
    leave_daemon(line)
    return {
        name: {each: attempt.run(tried, targets).to_json() for each, tried in attempts.items()}
        for name, attempts in ATTEMPTS.items()
    }


def _seen(outcome: Outcome, reached: set[str]) -> dict[str, dict[str, Result]]:
    """What came of each attempt, as far as it shows outside."""
    answer = cast("Mapping[str, Mapping[str, Mapping[str, Any]]]", outcome.answer)
    results = {
        name: {each: Result.from_json(value) for each, value in tried.items()}
        for name, tried in answer.items()
    }
    for tried in results.values():
        for each in outside.SEEN_HERE.intersection(tried):
            said = tried[each].said
            if each in reached:
                tried[each] = Result(True, "seen outside")
            elif tried[each].got_through:
                tried[each] = Result(False, f"{said}, but not outside")
    return results


def _try_cuda(plan: BoxPlan, place: Outside) -> tuple[dict[str, str], str]:
    """Whether a context comes up, and which layer alone keeps it from that."""
    said = _cuda_once(plan)
    if said["state"] == "works":
        return said, ""
    for suspect in _SUSPECTS:
        if suspect in plan.layers:
            less = _without(plan, suspect, place)
            if _cuda_once(less)["state"] == "works":
                return {"state": "works", "said": said["said"]}, suspect
    return said, ""


def _cuda_once(plan: BoxPlan) -> dict[str, str]:
    outcome = open_once(plan, make_context, _CUDA_S)
    if outcome.answer is None:
        said = outcome.failed or f"the process ended with wait status {outcome.status}"
        return {"state": "fails", "said": said}
    works = bool(outcome.answer["works"])
    return {"state": "works" if works else "fails", "said": str(outcome.answer["said"])}
