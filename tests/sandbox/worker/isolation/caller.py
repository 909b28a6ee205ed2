"""A stand-in for the process that opens boxes: one request on standard input, one answer out.

Started by the tests as a program, so that it has one thread and can give its user up. Imports
all that boxed code may use: after that, its own files may be out of reach.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any

from egg_mcp.sandbox.worker.isolation import (
    attempt,
    filter_program,
    namespaces,
    outside,
    privileges,
    syscalls,
)
from egg_mcp.sandbox.worker.isolation.box import run_boxed
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.probe import probe
from egg_mcp.sandbox.worker.isolation.properties import ATTEMPTS
from egg_mcp.sandbox.worker.isolation.trial_box import open_once

# What boxed code finds by name: to import it then could be too late.
NAMES = ("errno", "mmap", "os", "signal", "socket", "subprocess", "sys", "threading", "ctypes")
READY_MADE: dict[str, Any] = {
    **{name: importlib.import_module(name) for name in NAMES},
    "syscalls": syscalls,
}


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def refuse_calls(names: list[str]) -> None:
    """Be as a container that refuses these system calls to everything in it."""
    steps = [filter_program.load_number()]
    for name in names:
        number = syscalls.number(name)
        assert number is not None
        steps += filter_program.for_call(number, filter_program.refuse(errno.EPERM))
    program = filter_program.assemble([*steps, filter_program.allow()])
    text = ctypes.create_string_buffer(program, len(program))
    syscalls.prctl(38, 1)
    described = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    syscalls.call("seccomp", 1, 0, described)


def give_up_mounting() -> None:
    """Be as root in a container: every capability but CAP_SYS_ADMIN."""
    data = ctypes.create_string_buffer(24)
    header = struct.pack("Ii", 0x20080522, 0)
    syscalls.call("capget", header, data)
    words = list(struct.unpack("6I", data.raw))
    for index in (0, 1):
        words[index] &= ~(1 << privileges.CAP_SYS_ADMIN)
    syscalls.call("capset", header, struct.pack("6I", *words))


def become_root_of_little() -> None:
    """Be as root in a rootless container: of a user namespace with one user."""
    uid, gid = os.geteuid(), os.getegid()
    privileges.set_dumpable(True)
    syscalls.call("unshare", namespaces.NEW_USER)
    Path("/proc/self/setgroups").write_bytes(b"deny")
    Path("/proc/self/uid_map").write_bytes(f"0 {uid} 1".encode())
    Path("/proc/self/gid_map").write_bytes(f"0 {gid} 1".encode())


def open_box(request: dict[str, Any], keep: list[int]) -> dict[str, Any]:
    said, failure, output = os.pipe(), os.pipe(), os.pipe()
    guard = os.fork()
    if guard == 0:
        os.dup2(output[1], 1)
        os.dup2(output[1], 2)

        def say(value: object) -> None:
            os.write(said[1], json.dumps(value).encode() + b"\n")

        names: dict[str, Any] = {**READY_MADE, "say": say, "keep": keep}

        def work() -> None:
            exec(compile(request["work"], "work", "exec"), names)  # noqa: S102

        run_boxed(
            BoxPlan.from_json(request["plan"]),
            work,
            [said[1], *keep],
            lambda why: write(failure[1], why),
        )
    for each in (said[1], failure[1], output[1], *keep):
        os.close(each)
    if request.get("hold"):
        answer({"guard": guard})
    texts = [_read(each[0]) for each in (said, failure, output)]
    status = os.waitpid(guard, 0)[1]
    return {
        "said": [json.loads(line) for line in texts[0].splitlines()],
        "failed": texts[1],
        "output": texts[2],
        "code": os.waitstatus_to_exitcode(status),
        "dumped": os.WCOREDUMP(status),
    }


def write(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode())


def _read(descriptor: int) -> str:
    parts: list[bytes] = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def try_probe(request: dict[str, Any]) -> dict[str, Any]:
    """The report, and whether the process is as it was before."""
    before = set(Path("/proc/self/fd").iterdir())
    report = probe(BoxPlan.from_json(request["plan"]), cuda=False)
    after = set(Path("/proc/self/fd").iterdir())
    try:
        os.waitpid(-1, os.WNOHANG)
        has_children = True
    except ChildProcessError:
        has_children = False
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return {
        "report": report,
        "same_descriptors": len(before) == len(after),
        "has_children": has_children,
        "blocked": len(mask),
    }


def attack(request: dict[str, Any]) -> dict[str, Any]:
    """Each attempt's result: as it looks from inside, and which ones arrived outside."""
    plan = BoxPlan.from_json(request["plan"])
    with outside.put_up() as place:
        targets = place.targets(plan)
        outcome = open_once(
            plan,
            lambda _: {
                name: attempt.run(tried, targets).to_json()
                for attempts in ATTEMPTS.values()
                for name, tried in attempts.items()
            },
            30.0,
        )
        return {
            "failed": outcome.failed,
            "results": outcome.answer,
            "reached": sorted(place.reached()),
        }


def answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    request = json.loads(sys.stdin.read())
    keep = [int(each) for each in request.get("keep", [])]
    if request.get("uid"):
        become(request["uid"])
    if request.get("refused"):
        refuse_calls(request["refused"])
    if request.get("who") == "root without mounting":
        give_up_mounting()
    elif request.get("who") == "root of little":
        become_root_of_little()
    if "probe" in request:
        reply = try_probe(request)
    elif "attack" in request:
        reply = attack(request)
    else:
        reply = open_box(request, keep)
    answer(reply)


if __name__ == "__main__":
    signal.alarm(60)
    main()
