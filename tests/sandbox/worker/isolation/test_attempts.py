"""Every attempt, one by one: refused in every kind of box, and able to succeed outside one."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.sandbox.worker.isolation.limit_attempts import SHARED_MEMORY
from egg_mcp.sandbox.worker.isolation.outside import SEEN_HERE
from egg_mcp.sandbox.worker.isolation.properties import ATTEMPTS
from tests.sandbox.worker.isolation.opening import (
    BOXED,
    Opener,
    Route,
    require,
    route_named,
)

ALL_ATTEMPTS = [name for attempts in ATTEMPTS.values() for name in attempts]
# Without a /tmp of its own a box can fill the disk, file by file; see `disk_bytes`.
NOT_BOUNDED_WHERE_SHARED = {"fill_disk"}
# What root without a box gets done; all of it harmless. The rest depends on the kernel's
# configuration, or is refused to everybody.
THROUGH_UNBOXED = [
    *("make_file_in_host_folder", "leave_file_in_temp", "make_file_in_usr", "overwrite_secret"),
    *("set_core_pattern", "read_secret", "list_secret_folder", "read_shadow"),
    *("connect_tcp", "send_udp", "connect_abstract_unix", "connect_unix_path"),
    *("make_netlink_socket", "make_packet_socket"),
    *("see_process", "list_processes", "signal_process", "read_environ", "read_command_line"),
    *("open_memory", "trace_process", "copy_memory", "set_limits_of_process"),
    *("take_heap", "fork_past_limit", "open_many_files", "grow_file", "fill_disk"),
    *("fill_shared_memory", "use_processor"),
    *("clone3", "mount", "umount", "pivot_root", "chroot", "fsopen", "open_tree", "move_mount"),
    *("mount_setattr", "ptrace", "process_vm_readv", "pidfd_getfd", "prlimit", "openat2"),
    *("name_to_handle_at", "open_by_handle_at", "unshare_user", "setns", "personality"),
    *("type_into_terminal", "set_user_id", "create_set_user_id", "make_device"),
    *("shared_segment", "semaphores", "message_queue", "settimeofday", "sethostname", "reboot"),
]


@cache
def attack(route: Route) -> dict[str, Any]:
    """All attempts in one box."""
    require(route)
    with tempfile.TemporaryDirectory(prefix="box-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        scratch = folder / "scratch"
        scratch.mkdir(mode=0o700)
        hidden = folder / "hidden"
        hidden.mkdir()
        (hidden / "state").write_bytes(b"state")
        changes = {"read_only": (str(folder),), "hidden": (str(hidden),)}
        answer = Opener(scratch).ask(route, attack=True, changes=changes)
    assert answer["failed"] == ""
    return answer


def got_through(route: Route, name: str) -> bool:
    answer = attack(route)
    if name in SEEN_HERE:
        return name in answer["reached"]
    return answer["results"][name]["got_through"]


@pytest.mark.parametrize("name", [each for each in ALL_ATTEMPTS if each != SHARED_MEMORY])
def test_attempt_is_refused_in_a_box(boxed: Route, name: str) -> None:
    if "namespaces" not in boxed.layers and name in NOT_BOUNDED_WHERE_SHARED:
        assert got_through(boxed, name)
        return
    assert not got_through(boxed, name), attack(boxed)["results"][name]


@pytest.mark.parametrize("name", THROUGH_UNBOXED)
def test_attempt_succeeds_without_a_box(name: str) -> None:
    assert got_through(route_named("root-off"), name), attack(route_named("root-off"))["results"][
        name
    ]


@pytest.mark.parametrize("name", ["look_into_hidden"])
def test_hidden_folder_is_seen_without_a_box(name: str) -> None:
    assert got_through(route_named("root-off"), name)


def test_shared_mappings_are_not_bounded_and_this_is_known(boxed: Route) -> None:
    assert got_through(boxed, SHARED_MEMORY)


def test_there_are_routes_for_root_and_for_an_ordinary_user() -> None:
    assert {route.as_root for route in BOXED} == {True, False}


SINGLE = {
    "namespaces": ("see_process", "connect_abstract_unix", "read_secret", "make_file_in_usr"),
    "landlock": ("read_secret", "make_file_in_usr", "connect_tcp", "signal_process"),
    "seccomp": ("connect_tcp", "send_udp", "unshare_user", "ptrace", "mount", "set_user_id"),
    "limits": ("take_heap", "open_many_files", "grow_file", "use_processor"),
}


@pytest.mark.parametrize("as_root", [True, False], ids=["root", "user"])
@pytest.mark.parametrize(
    ("layer", "name"), [(layer, name) for layer, names in SINGLE.items() for name in names]
)
def test_layer_alone_refuses(layer: str, name: str, as_root: bool) -> None:
    assert not got_through(Route(f"{layer}-alone", as_root, frozenset({layer})), name)


@pytest.mark.parametrize("name", ["read_shadow", "overwrite_secret", "signal_process", "mount"])
def test_user_of_its_own_alone_refuses(name: str) -> None:
    route = Route("uid-alone", True, frozenset({"uid"}))
    through = got_through(route, name)
    # Not permitted to mount, but the call is made.
    assert through == (name == "mount")
