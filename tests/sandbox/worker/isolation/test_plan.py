"""Plans: written, read, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from egg_mcp.sandbox.worker.isolation.plan import BOX_SCRATCH, LAYERS, BoxPlan, Limits, PlanError

PLAN = BoxPlan(
    layers=frozenset(LAYERS),
    limits=Limits(1, 2, 3, 4, 5, 6, 7),
    read_only=("/opt/python", "/usr/local/cuda"),
    hidden=("/opt/python/state",),
    devices=("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1"),
    scratch=BOX_SCRATCH,
    slot_uid=70_000,
)


def test_plan_is_read_as_it_was_written() -> None:
    assert BoxPlan.from_json(json.loads(json.dumps(PLAN.to_json()))) == PLAN


def test_json_names_everything_in_order() -> None:
    assert PLAN.to_json() == {
        "layers": list(LAYERS),
        "limits": {
            "host_memory_bytes": 1,
            "cpu_s": 2,
            "processes": 3,
            "open_files": 4,
            "file_bytes": 5,
            "disk_bytes": 6,
            "shared_memory_bytes": 7,
        },
        "read_only": ["/opt/python", "/usr/local/cuda"],
        "hidden": ["/opt/python/state"],
        "devices": list(PLAN.devices),
        "scratch": "/tmp/egg",  # noqa: S108
        "slot_uid": 70_000,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layers", ["landlock", "magic"]),
        ("layers", "landlock"),
        ("layers", [1]),
        ("limits", {}),
        ("limits", None),
        ("limits", {**PLAN.to_json()["limits"], "cpu_s": 0}),
        ("limits", {**PLAN.to_json()["limits"], "cpu_s": 1.5}),
        ("limits", {**PLAN.to_json()["limits"], "cpu_s": True}),
        ("limits", {**PLAN.to_json()["limits"], "processes": 1 << 63}),
        ("limits", {**PLAN.to_json()["limits"], "more": 1}),
        ("read_only", ["relative"]),
        ("read_only", ["/"]),
        ("read_only", ["/tmp"]),  # noqa: S108
        ("read_only", ["/proc"]),
        ("read_only", ["/dev"]),
        ("read_only", ["/usr/../etc"]),
        ("read_only", ["/usr//lib"]),
        ("read_only", ["/usr/"]),
        ("read_only", ["/usr\0"]),
        ("read_only", [None]),
        ("hidden", ["/"]),
        ("hidden", "/state"),
        ("devices", ["/dev/mem"]),
        ("devices", ["/dev/sda"]),
        ("devices", ["/dev/nvidia/../mem"]),
        ("devices", ["/etc/nvidia0"]),
        ("scratch", "/home/user"),
        ("scratch", 5),
        ("slot_uid", 0),
        ("slot_uid", -1),
        ("slot_uid", True),
        ("slot_uid", "70000"),
        ("slot_uid", (1 << 32) - 1),
        ("unknown", 1),
    ],
)
def test_plan_that_cannot_mean_what_it_says_is_refused(name: str, value: Any) -> None:
    with pytest.raises(PlanError):
        BoxPlan.from_json({**PLAN.to_json(), name: value})


@pytest.mark.parametrize("name", list(PLAN.to_json()))
def test_plan_with_something_missing_is_refused(name: str) -> None:
    table = PLAN.to_json()
    del table[name]
    with pytest.raises(PlanError, match=name):
        BoxPlan.from_json(table)


@pytest.mark.parametrize("value", [None, [], "plan", 1])
def test_plan_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(PlanError):
        BoxPlan.from_json(value)


def test_without_namespaces_any_folder_may_be_the_scratch() -> None:
    layers = PLAN.layers - {"namespaces"}
    assert replace(PLAN, layers=layers, scratch="/var/scratch").scratch == "/var/scratch"
