"""Confines the worker, the last process of the chain, and looks whether it is confined."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import (
    file_rules,
    landlock,
    limits,
    privileges,
    seccomp,
)
from egg_mcp.sandbox.worker.isolation.layer import LayerError, applying
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.route import Route
from egg_mcp.sandbox.worker.isolation.view import trace

_OWNER_ONLY = 0o077


def confine(plan: BoxPlan, route: Route, tie: Callable[[], None]) -> None:
    """Apply everything that the plan says to this process, for good.

    Args:
        plan: what to apply.
        route: how.
        tie: makes this process die with its parent; a change of user undoes that.

    Raises:
        LayerError: something could not be applied: nothing untrusted may run.
    """
    with applying("box"):
        os.umask(_OWNER_ONLY)
        os.chdir(plan.scratch)
    if not plan.layers:
        return
    _require_single_thread()
    if "limits" in plan.layers:
        with applying("limits"):
            limits.apply(plan.limits, route.most_processes(plan))
    with applying("box"):
        limits.forbid_dumps()
        privileges.clear_bounding_set()
    if route.drops_last:
        with applying("uid"):
            privileges.become(plan.slot_uid)
    with applying("box"):
        tie()
        # Of its own user again, or its own /proc entries would be root's.
        privileges.set_dumpable(True)
        privileges.drop_capabilities()
        privileges.forbid_new_privileges()
    if route.slot_uid(plan) is not None:
        _require_readable(plan)
    if "landlock" in plan.layers:
        with applying("landlock"):
            rules = file_rules.in_own_root if route.has_namespaces else file_rules.in_shared_root
            landlock.apply(rules(plan))
    if "seccomp" in plan.layers:
        with applying("seccomp"):
            seccomp.apply(own_network=route.has_namespaces)
    _verify(plan, route)


def _require_single_thread() -> None:
    """Landlock and seccomp bind one thread: there must be no other."""
    with applying("box"):
        threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names
    if threads != 1:
        raise LayerError("box", f"{threads} threads, of which only one would be confined")


def _require_readable(plan: BoxPlan) -> None:
    for path in plan.read_only:
        if any(Path(path).is_relative_to(hidden) for hidden in plan.hidden):
            continue
        try:
            found = trace(path)
        except PermissionError as error:
            raise LayerError("uid", f"user {plan.slot_uid} cannot reach {path}") from error
        if found is not None and not os.access(found.path, os.R_OK):
            raise LayerError("uid", f"user {plan.slot_uid} cannot read {path}")


def _verify(plan: BoxPlan, route: Route) -> None:
    """Ask the kernel, not the code above."""
    with applying("box"):
        facts = {
            "capabilities are left": any(privileges.capabilities()),
            "new privileges are possible": not privileges.gains_nothing(),
        }
    if "seccomp" in plan.layers:
        facts["no filter is active"] = not privileges.is_filtered()
    slot = route.slot_uid(plan)
    if slot is not None:
        facts["the user is another"] = {*os.getresuid(), *os.getresgid()} != {slot}
        facts["other groups are left"] = os.getgroups() not in ([], [slot])
    wrong = [fact for fact, is_wrong in facts.items() if is_wrong]
    if wrong:
        raise LayerError("box", wrong[0])
