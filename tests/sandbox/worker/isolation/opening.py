"""Opens boxes for the tests, by way of a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

import pytest

from egg_mcp.sandbox.worker.isolation.plan import BOX_SCRATCH, LAYERS, BoxPlan, Limits

CALLER = Path(__file__).with_name("caller.py")
ORDINARY_UID = 1_500_000 + os.getpid()
SLOT_UID = 1_000_000 + os.getpid()
LIMITS = Limits(
    host_memory_bytes=1 << 30,
    cpu_s=30,
    processes=24,
    open_files=64,
    file_bytes=1 << 20,
    disk_bytes=4 << 20,
    shared_memory_bytes=2 << 20,
)
# The caller has imported all it needs, so a box need not show where Python lies.
ALL = frozenset(LAYERS)
SHARED = ALL - {"namespaces"}


@dataclass(frozen=True)
class Route:
    """Who opens the box, and with which layers."""

    name: str
    as_root: bool
    layers: frozenset[str]

    @property
    def uid(self) -> int:
        return ORDINARY_UID if not self.as_root and os.geteuid() == 0 else 0


ROUTES = [
    Route("root", True, ALL),
    Route("user", False, ALL),
    Route("root-shared", True, SHARED),
    Route("user-shared", False, SHARED),
    Route("root-off", True, frozenset()),
    Route("user-off", False, frozenset()),
]
BOXED = [route for route in ROUTES if route.layers]


def route_named(name: str) -> Route:
    return next(each for each in ROUTES if each.name == name)


@cache
def user_namespaces_work() -> bool:
    """By another program than the one under test."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    who = ORDINARY_UID if os.geteuid() == 0 else None
    try:
        ran = subprocess.run(
            [*command, "true"], user=who, group=who, capture_output=True, check=False, cwd="/"
        )
    except OSError:
        return False
    return ran.returncode == 0


def require(route: Route) -> None:
    """Skip what this machine cannot do, and say why."""
    if sys.platform != "linux":
        pytest.skip("boxes need Linux")
    if route.as_root and os.geteuid() != 0:
        pytest.skip("needs root")
    if not route.as_root and "namespaces" in route.layers and not user_namespaces_work():
        pytest.skip("ordinary users may not make user namespaces here")


@dataclass(frozen=True)
class Opened:
    """How a box ended.

    Attributes:
        said: what the work said, in order.
        failed: why it did not open.
        output: its standard output and error.
        code: exit code; minus the signal if one ended it.
        dumped: whether a core was written.
    """

    said: list[Any]
    failed: str
    output: str
    code: int
    dumped: bool


class Opener:
    """Opens boxes by way of a process of their own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def plan(self, route: Route, **changes: Any) -> BoxPlan:
        own_root = "namespaces" in changes.get("layers", route.layers)
        plan = BoxPlan(
            layers=route.layers,
            limits=LIMITS,
            read_only=(),
            hidden=(),
            devices=(),
            scratch=BOX_SCRATCH if own_root else str(self.scratch),
            slot_uid=SLOT_UID,
        )
        return replace(plan, **changes)

    def open(
        self, route: Route, work: str, keep: Sequence[int] = (), uid: int | None = None, **more: Any
    ) -> Opened:
        changes = more.pop("changes", {})
        answer = self.ask(route, work=work, keep=list(keep), uid=uid, changes=changes, **more)
        return Opened(**answer)

    def ask(self, route: Route, *, uid: int | None = None, **request: Any) -> dict[str, Any]:
        process = self.start(route, uid=uid, **request)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return cast("dict[str, Any]", json.loads(out.splitlines()[-1]))

    def start(
        self,
        route: Route,
        *,
        uid: int | None = None,
        changes: dict[str, Any] | None = None,
        **request: Any,
    ) -> subprocess.Popen[str]:
        require(route)
        who = route.uid if uid is None else uid
        if who:
            os.chown(self.scratch, who, who)
        request["uid"] = who
        request["plan"] = self.plan(route, **(changes or {})).to_json()
        process = subprocess.Popen(
            [sys.executable, str(CALLER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=request.get("keep", []),
        )
        stdin = cast("IO[str]", process.stdin)
        stdin.write(json.dumps(request))
        stdin.close()
        process.stdin = None
        return process
