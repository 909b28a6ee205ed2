"""The keeper: parent of everything in a box. Process 1 where there is a process namespace."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from egg_mcp.sandbox.worker.isolation import (
    descriptors,
    namespaces,
    privileges,
    root_view,
    sweep,
)
from egg_mcp.sandbox.worker.isolation.confinement import confine
from egg_mcp.sandbox.worker.isolation.layer import LayerError, applying
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.route import Route

STATUS = struct.Struct("i")
READY = b"ready"
SETUP_FAILED = 97

_WORK_FAILED = 1
_GUARD_IS_GONE = signal.SIGTERM
_AWAITED = {signal.SIGCHLD, _GUARD_IS_GONE}


@dataclass(frozen=True)
class Lines:
    """The keeper's ends of its pipes to the guard.

    Attributes:
        setup: takes `READY`, or why the box does not open, and is closed then.
        status: takes how the worker ended.
        lifeline: hangs up when the guard is gone.
    """

    setup: int
    status: int
    lifeline: int


@dataclass(frozen=True)
class Job:
    """What is to run, how, and with which descriptors."""

    plan: BoxPlan
    route: Route
    work: Callable[[], None]
    keep: tuple[int, ...]


def run(job: Job, lines: Lines) -> NoReturn:
    """Build the box, run the job in it, empty it, tell the guard how it ended."""
    try:
        _keep(job, lines)
    except BaseException as error:  # noqa: BLE001 - above this is the caller's own stack
        _say(lines.setup, error)
    finally:
        os._exit(SETUP_FAILED)


def _keep(job: Job, lines: Lines) -> None:
    route = job.route
    with applying("box"):
        # Where its end does not take the box with it, the keeper must live to see it empty.
        privileges.die_with_parent(signal.SIGKILL if route.has_namespaces else _GUARD_IS_GONE)
        if descriptors.has_hung_up(lines.lifeline):
            return
        if not route.has_namespaces:
            privileges.adopt_orphans()
    if route.has_namespaces:
        with applying("namespaces"):
            namespaces.complete()
            root_view.build(job.plan, *route.user(job.plan))
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        _work(job, lines, keeper)
    _withdraw(job, lines)
    status = _await_end(worker, route)
    if not route.has_namespaces:
        sweep.end_descendants(route.slot_uid(job.plan))
    if status is not None:
        os.write(lines.status, STATUS.pack(status))
    os._exit(0)


def _withdraw(job: Job, lines: Lines) -> None:
    """Hold nothing that others wait on, and be of no use to whoever looks in."""
    descriptors.close_all_but({lines.status})
    descriptors.silence((0, 1, 2))
    privileges.set_dumpable(False)
    if job.plan.layers and job.route.has_namespaces:
        privileges.clear_bounding_set()
        privileges.drop_capabilities()
        privileges.forbid_new_privileges()


def _await_end(worker: int, route: Route) -> int | None:
    """Reap until the worker has ended: its wait status. None if the guard is gone first."""
    awaited = {signal.SIGCHLD} if route.has_namespaces else _AWAITED
    while True:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                return status
            if pid == 0:
                break
        if signal.sigwait(awaited) == _GUARD_IS_GONE:
            return None


def _work(job: Job, lines: Lines, keeper: int) -> NoReturn:
    """As the worker: be confined, then do the work."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        _prepare(job, lines, keeper)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the work must not start
        _say(lines.setup, error)
        os._exit(SETUP_FAILED)
    code = _WORK_FAILED
    try:
        job.work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - untrusted: printed like any uncaught exception
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(code & 0xFF)


def _prepare(job: Job, lines: Lines, keeper: int) -> None:
    def tie() -> None:
        privileges.die_with_parent()
        if os.getppid() != keeper:
            os._exit(SETUP_FAILED)

    with applying("box"):
        tie()
        descriptors.silence((0,))
        descriptors.close_all_but({*job.keep, lines.setup})
    confine(job.plan, job.route, tie)
    os.write(lines.setup, READY)
    os.close(lines.setup)


def _say(line: int, error: BaseException) -> None:
    known = isinstance(error, LayerError)
    text = str(error) if known else f"box: {type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        os.write(line, text.encode("utf-8", "replace")[:2_000])
