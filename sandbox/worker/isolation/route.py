"""Route: by which way a plan is reached, given who runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from egg_mcp.sandbox.worker.isolation import namespaces
from egg_mcp.sandbox.worker.isolation.limits import processes_of
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan

_GUARD_AND_INIT = 2


@dataclass(frozen=True)
class Route:
    """How this plan is reached.

    Attributes:
        has_namespaces: whether the box has any.
        in_user_namespace: whether they lie in a user namespace of the box's own.
        drops_first: root that may not mount becomes the slot's user before all else.
        drops_last: root that may mount becomes the slot's user once the root stands.
    """

    has_namespaces: bool
    in_user_namespace: bool
    drops_first: bool
    drops_last: bool

    @classmethod
    def of(cls, plan: BoxPlan) -> Route:
        """The route for this process.

        Raises:
            OSError: its capabilities cannot be read.
        """
        has_namespaces = "namespaces" in plan.layers
        in_user_namespace = has_namespaces and namespaces.need_user_namespace()
        drops = "uid" in plan.layers and os.geteuid() == 0
        return cls(
            has_namespaces=has_namespaces,
            in_user_namespace=in_user_namespace,
            drops_first=drops and in_user_namespace,
            drops_last=drops and not in_user_namespace,
        )

    def slot_uid(self, plan: BoxPlan) -> int | None:
        """The user that is the box's alone; None where there is no such user."""
        return plan.slot_uid if self.drops_first or self.drops_last else None

    def user(self, plan: BoxPlan) -> tuple[int, int]:
        """User and group of the code in the box, as this process would have them."""
        slot = self.slot_uid(plan)
        return (os.geteuid(), os.getegid()) if slot is None else (slot, slot)

    def most_processes(self, plan: BoxPlan) -> int:
        """What RLIMIT_NPROC must say: it counts by user, within the user namespace."""
        wanted = plan.limits.processes
        if self.in_user_namespace:
            return wanted + _GUARD_AND_INIT
        if self.drops_last or os.geteuid() == 0:
            return wanted
        # The worker itself is among those that run already.
        return wanted + processes_of(os.geteuid()) - 1
