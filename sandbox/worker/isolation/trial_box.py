"""A box opened for a trial: one child, one answer, one deadline."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from egg_mcp.sandbox.worker.isolation.box import run_boxed
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan

_MOST_BYTES = 1 << 20
_HANG_UP_S = 2.0


@dataclass(frozen=True)
class Outcome:
    """How the trial ended.

    Attributes:
        failed: why the box did not open; empty if it did.
        answer: what the work said; None if it said nothing readable.
        status: the child's wait status.
        has_emptied: whether all that held a line of the box let go within two seconds of its end.
    """

    failed: str
    answer: Any
    status: int
    has_emptied: bool


def open_once(plan: BoxPlan, work: Callable[[int], Any], deadline_s: float) -> Outcome:
    """Run the work in a box and wait for its end; past the deadline the box is killed.

    Args:
        plan: of the box.
        work: is given a descriptor that a daemon may hold; returns plain JSON.
        deadline_s: for all of it.

    Raises:
        OSError: no more processes or descriptors.
    """
    deadline = time.monotonic() + deadline_s
    answer, failure, line = os.pipe(), os.pipe(), os.pipe()
    ends = [each[0] for each in (answer, failure, line)]
    try:
        child = os.fork()
        if child == 0:
            run_boxed(
                plan,
                lambda: _write_all(answer[1], work(line[1])),
                (answer[1], line[1]),
                lambda why: _write_text(failure[1], why),
            )
        for each in (answer[1], failure[1], line[1]):
            os.close(each)
        said = _read_until(answer[0], deadline)
        status = _end(child, deadline)
        why = _read_until(failure[0], time.monotonic() + _HANG_UP_S)
        has_emptied = _has_hung_up(line[0], _HANG_UP_S)
    finally:
        for each in ends:
            os.close(each)
    return Outcome(why.decode("utf-8", "replace"), _parsed(said), status, has_emptied)


def _write_all(descriptor: int, value: object) -> None:
    data = memoryview(json.dumps(value).encode())
    while data:
        data = data[os.write(descriptor, data) :]


def _write_text(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode("utf-8", "replace")[:2_000])


def _read_until(descriptor: int, deadline: float) -> bytes:
    """Everything until the other end closes, the deadline, or too much."""
    data = b""
    while len(data) < _MOST_BYTES and _is_ready(descriptor, deadline - time.monotonic()):
        part = os.read(descriptor, 1 << 16)
        if not part:
            break
        data += part
    return data


def _end(child: int, deadline: float) -> int:
    """Reap the child, by force if it does not end in time."""
    handle = os.pidfd_open(child)
    try:
        if not _is_ready(handle, deadline - time.monotonic()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitpid(child, 0)[1]


def _has_hung_up(descriptor: int, within_s: float) -> bool:
    return _is_ready(descriptor, within_s) and not os.read(descriptor, 1)


def _is_ready(descriptor: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1_000))


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
