"""How a box opens, ends and is emptied; what it holds back when a layer cannot be had."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import pytest

from egg_mcp.sandbox.worker.isolation.box import SETUP_FAILED
from tests.sandbox.worker.isolation.opening import (
    LIMITS,
    Opener,
    Route,
    route_named,
    user_namespaces_work,
)

PATIENCE_MS = 20_000
DAEMON = """
there = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        say("daemon")
        os.write(there[1], b"!")
        while True:
            signal.pause()
    os._exit(0)
os.wait()
os.read(there[0], 1)
"""
# Each link of the chain has ended before anybody can look for it.
CHAIN = """
if os.fork() == 0:
    os.setsid()
    say("chain")
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass
os.wait()
"""
HELD = (
    DAEMON.replace('say("daemon")', "os.write(keep[0], b'!')")
    + """
os.write(keep[0], b'!')
signal.pause()
"""
)


def has_hung_up(line: tuple[int, int]) -> bool:
    """Whether everybody lets go of the line's second end, given time."""
    os.close(line[1])
    poll = select.poll()
    poll.register(line[0], select.POLLIN)
    return bool(poll.poll(PATIENCE_MS)) and os.read(line[0], 1) == b""


@pytest.mark.parametrize("code", [0, 3, 97, 255])
def test_exit_code_is_the_workers(opener: Opener, route: Route, code: int) -> None:
    opened = opener.open(route, f"say('ran'); os._exit({code})")
    assert (opened.code, opened.failed, opened.said) == (code, "", ["ran"])


@pytest.mark.parametrize("which", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGINT", "SIGXCPU"])
def test_signal_is_the_workers_and_leaves_no_dump(opener: Opener, route: Route, which: str) -> None:
    opened = opener.open(
        route,
        f"signal.signal(signal.{which}, signal.SIG_DFL) if '{which}' != 'SIGKILL' else None\n"
        f"os.kill(os.getpid(), signal.{which})",
    )
    assert (opened.code, opened.failed, opened.dumped) == (-signal.Signals[which], "", False)


def test_work_that_returns_ends_with_0_and_one_that_raises_with_1(
    opener: Opener, route: Route
) -> None:
    assert opener.open(route, "pass").code == 0
    raised = opener.open(route, "print('before'); raise KeyError('no such')")
    assert raised.code == 1
    assert raised.output.startswith("before\n")
    assert "KeyError: 'no such'" in raised.output
    assert opener.open(route, "raise SystemExit(7)").code == 7
    assert opener.open(route, "sys.exit('in words')").code == 1


def test_worker_holds_what_it_was_given_and_nothing_else(
    opener: Opener, route: Route, line: tuple[int, int]
) -> None:
    opened = opener.open(
        route,
        """
open_now = []
for each in range(300):
    try:
        os.fstat(each)
        open_now.append(each)
    except OSError:
        pass
say(open_now)
say([os.read(0, 1).decode(), os.fstat(0).st_rdev == os.makedev(1, 3)])
""",
        keep=[line[1]],
    )
    kept = opened.said[0]
    assert kept[:3] == [0, 1, 2]
    assert line[1] in kept
    # The line on which the work speaks is the fifth.
    assert len(kept) == 5
    assert opened.said[1] == ["", True]


def test_worker_starts_in_its_scratch_folder_in_a_session_of_its_own(
    opener: Opener, route: Route
) -> None:
    opened = opener.open(
        route,
        "open('mine', 'w').write('x'); say(os.getcwd()); say(os.getsid(0) != os.getsid(1) "
        "if os.getppid() != 1 else True); say(oct(os.umask(0)))",
    )
    assert opened.said[0] == opener.plan(route).scratch
    assert opened.said[2] == "0o77"


def test_daemon_is_gone_when_the_box_has_ended(
    opener: Opener, route: Route, line: tuple[int, int]
) -> None:
    opened = opener.open(route, DAEMON, keep=[line[1]])
    assert (opened.code, opened.said) == (0, ["daemon"])
    # Nobody waits here: the caller reaped the guard before it answered.
    os.close(line[1])
    poll = select.poll()
    poll.register(line[0], select.POLLIN)
    assert poll.poll(0)
    assert os.read(line[0], 1) == b""


def test_chain_of_forks_is_gone_when_the_box_has_ended(
    opener: Opener, route: Route, line: tuple[int, int]
) -> None:
    opened = opener.open(route, CHAIN, keep=[line[1]])
    assert (opened.code, opened.said) == (0, ["chain"])
    assert has_hung_up(line)


def _hold(opener: Opener, route: Route, line: tuple[int, int]) -> tuple[subprocess.Popen[str], int]:
    """A box with a worker and a daemon in it, both alive; the caller and its guard."""
    process = opener.start(route, work=HELD, keep=[line[1]], hold=True)
    guard: int = json.loads(cast("IO[str]", process.stdout).readline())["guard"]
    return process, guard


def _wait_until_held(line: tuple[int, int]) -> None:
    """Until worker and daemon both have said that they are there."""
    seen = b""
    while seen.count(b"!") < 2:
        seen += os.read(line[0], 16)


@pytest.mark.parametrize("victim", ["guard", "caller"])
def test_everything_is_gone_when_guard_or_caller_is_killed(
    opener: Opener, route: Route, line: tuple[int, int], victim: str
) -> None:
    process, guard = _hold(opener, route, line)
    _wait_until_held(line)
    os.kill(guard if victim == "guard" else process.pid, signal.SIGKILL)
    assert has_hung_up(line)
    out, _ = process.communicate(timeout=60)
    if victim == "guard":
        assert json.loads(out)["code"] == -signal.SIGKILL


def test_guard_and_keeper_let_go_of_what_the_worker_has(
    opener: Opener, route: Route, line: tuple[int, int]
) -> None:
    waiting, go_on = os.pipe()
    process = opener.start(
        route, work="os.close(keep[0]); os.read(keep[1], 1); say('ran')", keep=[line[1], waiting]
    )
    os.close(waiting)
    # The worker has closed it and waits: only guard or keeper could still hold it.
    assert has_hung_up(line)
    os.close(go_on)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["said"] == ["ran"]


@pytest.fixture
def root_folder() -> Iterator[int]:
    descriptor = os.open("/", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({"devices": ("/dev/nvidia-nothing",)}, "namespaces"),
        ({"read_only": ("/proc/self/root",)}, "namespaces"),
    ],
    ids=["no-such-device", "root-by-a-link"],
)
@pytest.mark.parametrize("name", ["root", "user"])
def test_box_with_a_root_that_cannot_be_built_stays_shut(
    opener: Opener, name: str, changes: dict[str, Any], layer: str
) -> None:
    opened = opener.open(route_named(name), "say('ran')", changes=changes)
    assert (opened.code, opened.said) == (SETUP_FAILED, [])
    assert opened.failed.startswith(f"{layer}: ")


@pytest.mark.parametrize(
    ("refused", "layer"),
    [
        (["unshare"], "namespaces"),
        (["mount"], "namespaces"),
        (["pivot_root"], "namespaces"),
        (["mount_setattr"], "namespaces"),
        (["landlock_restrict_self"], "landlock"),
        (["landlock_create_ruleset"], "landlock"),
        (["capset"], "box"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["root", "user"])
def test_box_stays_shut_where_the_host_refuses_a_call(
    opener: Opener, name: str, refused: list[str], layer: str
) -> None:
    opened = opener.open(route_named(name), "say('ran')", refused=refused)
    assert (opened.code, opened.said) == (SETUP_FAILED, [])
    assert opened.failed.startswith(f"{layer}: ")


def test_box_stays_shut_where_the_scratch_folder_is_missing(opener: Opener) -> None:
    opened = opener.open(
        route_named("user-shared"), "say('ran')", changes={"scratch": "/nonexistent/scratch"}
    )
    assert (opened.code, opened.said) == (SETUP_FAILED, [])
    assert opened.failed.startswith("box: ")


def test_folder_among_the_kept_descriptors_is_refused(
    opener: Opener, route: Route, root_folder: int
) -> None:
    opened = opener.open(route, "say('ran')", keep=[root_folder])
    assert (opened.code, opened.said) == (SETUP_FAILED, [])
    assert "is a folder" in opened.failed


def test_user_that_cannot_read_what_the_plan_promises_is_refused(
    opener: Opener, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    (closed / "library").mkdir(parents=True)
    closed.chmod(0o700)
    changes = {"read_only": (str(closed / "library"),)}
    shared = opener.open(route_named("root-shared"), "say('ran')", changes=changes)
    assert (shared.code, shared.said) == (SETUP_FAILED, [])
    assert (
        shared.failed
        == f"uid: user {opener.plan(route_named('root')).slot_uid} cannot reach "
        + str(closed / "library")
    )
    # A root of its own shows it without the closed folder's lock.
    work = f"say(os.listdir({str(closed / 'library')!r})); say(os.listdir({str(closed)!r}))"
    own = opener.open(route_named("root"), work, changes=changes)
    assert own.said == [[], ["library"]]


# The limit of an ordinary user in a shared root counts all that the user runs; what ran before the
# box is added to it, so the bomb must be larger than that may be.
@pytest.mark.parametrize(
    ("name", "forks"), [("root", 500), ("user", 500), ("root-shared", 500), ("user-shared", 5_000)]
)
def test_fork_bomb_is_bounded_and_leaves_nothing(
    opener: Opener, name: str, forks: int, line: tuple[int, int]
) -> None:
    opened = opener.open(
        route_named(name),
        f"""
count = 0
try:
    for _ in range({forks}):
        if os.fork() == 0:
            while True:
                signal.pause()
        count += 1
except OSError as error:
    say(error.errno)
say(count)
""",
        keep=[line[1]],
    )
    assert (opened.said, opened.failed) == ([11, LIMITS.processes - 1], "")
    assert has_hung_up(line)


@pytest.mark.parametrize("name", ["root", "user", "root-shared", "user-shared"])
def test_processor_time_ends_with_its_own_signal(opener: Opener, name: str) -> None:
    limits = replace(LIMITS, cpu_s=1)
    opened = opener.open(route_named(name), "while True: pass", changes={"limits": limits})
    assert opened.code == -signal.SIGXCPU


@pytest.mark.parametrize("name", ["root", "user", "root-shared", "user-shared"])
def test_memory_past_the_limit_is_an_error_not_a_death(opener: Opener, name: str) -> None:
    opened = opener.open(
        route_named(name),
        """
try:
    bytearray(2 << 30)
except MemoryError:
    say("refused")
mmap.mmap(-1, 200 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)
say("reserved")
""",
    )
    # Address space that cannot be written is not counted: CUDA reserves hundreds of gigabytes.
    assert (opened.said, opened.failed, opened.output) == (["refused", "reserved"], "", "")


def test_oracle_agrees_that_user_namespaces_work_here(opener: Opener) -> None:
    if not user_namespaces_work():
        pytest.skip("ordinary users may not make user namespaces here")
    assert opener.open(route_named("user"), "say('ran')").said == ["ran"]


def test_root_that_may_not_mount_takes_the_slots_user_into_a_user_namespace(
    opener: Opener,
) -> None:
    if not user_namespaces_work():
        pytest.skip("ordinary users may not make user namespaces here")
    work = "say([os.getresuid(), os.getresgid(), os.getpid()])"
    opened = opener.open(route_named("root"), work, who="root without mounting")
    slot = opener.plan(route_named("root")).slot_uid
    assert opened.failed == ""
    assert opened.said == [[[slot] * 3, [slot] * 3, 2]]


def test_root_of_a_rootless_container_cannot_take_a_user_that_is_not_there(
    opener: Opener,
) -> None:
    route = route_named("user")
    opened = opener.open(route, "say('ran')", who="root of little")
    assert (opened.said, opened.code) == ([], SETUP_FAILED)
    assert opened.failed.startswith("uid: ")
    less = opener.plan(route).layers - {"uid"}
    opened = opener.open(
        route, "say(os.getresuid())", who="root of little", changes={"layers": less}
    )
    assert (opened.failed, opened.said) == ("", [[0, 0, 0]])


CAPABILITIES = """
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
say([status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")])
say([int(status["CapBnd"], 16), status["Groups"].split()])
"""


def test_nothing_is_left_of_what_the_caller_could_do(opener: Opener, boxed: Route) -> None:
    opened = opener.open(boxed, CAPABILITIES)
    assert opened.said[0] == ["0" * 16] * 4 + ["1", "2"]
    bounding, groups = opened.said[1]
    # Without capabilities of its own, a process cannot shrink the set; no_new_privs remains.
    assert bounding == 0 or boxed.name == "user-shared"
    assert len(groups) <= 1


def test_set_user_id_program_gains_nothing(opener: Opener, boxed: Route) -> None:
    opened = opener.open(
        boxed,
        "ran = subprocess.run(['/bin/su', '-c', 'id -u'], capture_output=True, text=True)\n"
        "say([os.path.exists('/bin/su'), ran.stdout])",
    )
    assert opened.said == [[True, ""]]
