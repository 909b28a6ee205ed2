"""The report: right for the whole plan, honest for less."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.sandbox.worker.isolation.plan import LAYERS
from egg_mcp.sandbox.worker.isolation.probe import probe
from egg_mcp.sandbox.worker.isolation.properties import NAMES
from tests.sandbox.worker.isolation.opening import ALL, SHARED, Opener, Route, route_named

OF_NAMESPACES = ["unshare"]


def report_of(opener: Opener, route: Route, **request: Any) -> dict[str, Any]:
    answer = opener.ask(route, probe=True, **request)
    assert answer["same_descriptors"]
    assert not answer["has_children"]
    assert answer["blocked"] == 0
    return answer["report"]


def states(report: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in report["properties"]}


def leftovers() -> set[str]:
    return {path.name for path in Path("/tmp").iterdir() if path.name.startswith("box-probe-")}  # noqa: S108


@pytest.mark.parametrize("name", ["root", "user"])
def test_whole_plan_is_enforced_but_for_shared_memory(opener: Opener, name: str) -> None:
    report = report_of(opener, route_named(name))
    assert (set(report["layers"]), report["tier"], report["failed"]) == (ALL, 2, {})
    assert states(report) == {each: "partial" if each == "limits" else "enforced" for each in NAMES}
    limits = report["properties"][NAMES.index("limits")]
    assert limits["why"].startswith("share_memory: mapped")
    assert "watch" in limits["why"]
    assert report["fix"] == []
    assert report["cuda"] == {"state": "not tried", "said": ""}
    assert all(each["proof"] and each["by"] for each in report["properties"])


@pytest.mark.parametrize("name", ["root", "user"])
def test_host_that_refuses_namespaces_gives_the_next_tier_and_says_what_to_do(
    opener: Opener, name: str
) -> None:
    report = report_of(opener, route_named(name), refused=OF_NAMESPACES)
    assert (set(report["layers"]), report["tier"]) == (SHARED, 1)
    assert list(report["failed"]) == ["namespaces"]
    assert "unshare" in report["failed"]["namespaces"]
    assert report["fix"]
    assert states(report)["limits"] == "partial"
    assert "fill_disk" in report["properties"][NAMES.index("limits")]["why"]
    assert states(report)["net"] == "enforced"


def test_user_that_cannot_read_python_is_given_up_with_the_reason(
    opener: Opener, tmp_path: Path
) -> None:
    closed = tmp_path / "closed" / "python"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    report = report_of(
        opener,
        route_named("root-shared"),
        changes={"read_only": (str(closed),)},
    )
    assert set(report["layers"]) == SHARED - {"uid"}
    assert "cannot reach" in report["failed"]["uid"]
    assert report["tier"] == 1
    # The limit on processes does nothing to root.
    assert "fork_past_limit" in report["properties"][NAMES.index("limits")]["why"]


def test_host_without_landlock_and_namespaces_gives_tier_0(opener: Opener) -> None:
    report = report_of(
        opener, route_named("user"), refused=[*OF_NAMESPACES, "landlock_create_ruleset"]
    )
    assert set(report["failed"]) == {"namespaces", "landlock"}
    assert report["tier"] == 0
    assert states(report)["fs_read"] != "enforced"
    assert states(report)["reaping"] == "partial"


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (set[str](), {"fs_write": "no", "fs_read": "no", "net": "no", "other_procs": "no"}),
        (set[str](), {"limits": "no", "kernel_surface": "no", "gpu_devices": "no"}),
        (set[str](), {"reaping": "partial"}),
        ({"seccomp"}, {"fs_write": "no", "net": "enforced", "kernel_surface": "enforced"}),
        ({"seccomp"}, {"other_procs": "partial", "limits": "no"}),
        ({"limits"}, {"limits": "partial", "fs_read": "no", "net": "no"}),
        ({"landlock"}, {"net": "partial", "kernel_surface": "no", "fs_write": "enforced"}),
        ({"namespaces"}, {"net": "partial", "reaping": "enforced", "kernel_surface": "no"}),
        ({"uid"}, {"net": "no", "limits": "no"}),
    ],
)
@pytest.mark.parametrize("as_root", [True, False], ids=["root", "user"])
def test_report_of_a_lesser_plan_is_honest(
    opener: Opener, layers: set[str], expected: dict[str, str], as_root: bool
) -> None:
    route = Route("lesser", as_root, frozenset(layers))
    report = report_of(opener, route)
    assert (report["tier"], report["failed"], set(report["layers"])) == (0, {}, layers)
    assert {name: states(report)[name] for name in expected} == expected


def test_uid_layer_keeps_nothing_for_an_ordinary_user(opener: Opener) -> None:
    report = report_of(opener, Route("uid", False, frozenset({"uid"})))
    assert set(states(report).values()) - {"partial"} == {"no"}
    assert states(report)["fs_read"] == "no"


def test_probe_leaves_no_file_and_no_mount(opener: Opener) -> None:
    def mounts() -> list[str]:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()

    before = mounts()
    report_of(opener, route_named("user"))
    report_of(opener, route_named("user-off"))
    assert mounts() == before
    mine = {name for name in leftovers() if Path("/tmp", name).stat().st_uid == os.geteuid()}  # noqa: S108
    assert not {name for name in mine if name.endswith("-left")}


def test_no_more_than_the_known_layers_are_reported(opener: Opener) -> None:
    report = report_of(opener, route_named("user"))
    assert set(report["layers"]) <= set(LAYERS)
    assert set(report) == {
        *("layers", "tier", "properties", "failed", "fix", "not_defended", "cuda"),
        "landlock_abi",
    }


def test_host_that_is_no_linux_gets_a_report_that_says_so(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    report = probe(opener.plan(route_named("user")), cuda=False)
    assert (report["layers"], report["tier"]) == ([], 0)
    assert "darwin" in report["failed"]["box"]
    assert set(states(report).values()) == {"no"}
