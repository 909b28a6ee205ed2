"""Opens a box: untrusted work runs in it as the plan says, or not at all.

caller, trusted, one thread
 `- guard       the caller's fork: outside; ends as the worker ended
     `- keeper      parent of everything inside; process 1 where there is a process namespace
         `- worker      confined, then runs the work
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from egg_mcp.sandbox.worker.isolation import (
    descriptors,
    keeper,
    limits,
    namespaces,
    privileges,
    sweep,
)
from egg_mcp.sandbox.worker.isolation.keeper import READY, SETUP_FAILED, STATUS, Job, Lines
from egg_mcp.sandbox.worker.isolation.layer import LayerError, applying
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan
from egg_mcp.sandbox.worker.isolation.route import Route

_KEPT_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}

_last_to_fork = os.getpid()


def _note_who_forks() -> None:
    """A fork cannot otherwise know whether the parent that it sees is the one that forked it."""
    global _last_to_fork  # noqa: PLW0603 - a hook has no other place
    _last_to_fork = os.getpid()


os.register_at_fork(before=_note_who_forks)


def run_boxed(
    plan: BoxPlan,
    work: Callable[[], None],
    keep: Sequence[int],
    failed: Callable[[str], None],
) -> NoReturn:
    """Run the work in a box; end as it ended. To be called in a fresh fork with one thread.

    The process ends with the worker's exit code, or by the signal that ended the worker, and
    not before everything in the box is gone. A work that returns ends with 0, one that raises
    prints the traceback and ends with 1.

    Args:
        plan: what must be in force before the work runs.
        work: runs confined, with standard input at /dev/null.
        keep: descriptors that the work has beside the standard three; none may be a folder.
        failed: takes `layer: why` if the plan cannot be put in force. The work has not run
            then and won't; the process ends with 97 (`SETUP_FAILED`).
    """
    try:
        _guard(plan, work, tuple(keep), failed)
    except BaseException as error:  # noqa: BLE001 - above this is the caller's own stack
        with contextlib.suppress(BaseException):
            failed(str(error) if isinstance(error, LayerError) else f"box: {error!r}")
    finally:
        os._exit(SETUP_FAILED)


def _guard(
    plan: BoxPlan,
    work: Callable[[], None],
    keep: tuple[int, ...],
    failed: Callable[[str], None],
) -> None:
    route = _settle(plan, keep)
    setup, status, lifeline = os.pipe(), os.pipe(), os.pipe()
    if route.drops_first:
        with applying("uid"):
            privileges.become(plan.slot_uid)
            privileges.set_dumpable(True)
    if route.has_namespaces:
        with applying("namespaces"):
            namespaces.begin(with_user=route.in_user_namespace)
    # A change of user, or to a user namespace, has undone it.
    _die_with_caller(_last_to_fork)
    child = os.fork()
    if child == 0:
        for each in (setup[0], status[0], lifeline[1]):
            os.close(each)
        keeper.run(Job(plan, route, work, keep), Lines(setup[1], status[1], lifeline[0]))
    for each in (setup[1], status[1], lifeline[0]):
        os.close(each)
    privileges.set_dumpable(False)
    said = descriptors.read_all(setup[0])
    if said != READY:
        os.kill(child, signal.SIGKILL)
        _await(child, plan, route)
        failed(said.decode("utf-8", "replace") or "box: died while it was set up")
        return
    descriptors.close_all_but({status[0], lifeline[1]})
    descriptors.silence((0, 1, 2))
    if plan.layers and route.has_namespaces:
        privileges.drop_capabilities()
    ended = descriptors.read_all(status[0])
    _await(child, plan, route)
    _end_like(STATUS.unpack(ended)[0] if len(ended) == STATUS.size else signal.SIGKILL)


def _settle(plan: BoxPlan, keep: tuple[int, ...]) -> Route:
    """Leave the caller's session, signal handlers and working folder."""
    with applying("box"):
        _die_with_caller(_last_to_fork)
        # After a change of user /proc/self would be root's, with the maps and scores to set.
        privileges.set_dumpable(True)
        signal.set_wakeup_fd(-1)
        for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            way = signal.SIG_IGN if each in _KEPT_IGNORED else signal.SIG_DFL
            with contextlib.suppress(OSError, ValueError):
                signal.signal(each, way)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.getsid(0) != os.getpid():
            os.setsid()
        privileges.adopt_orphans()
        descriptors.check(keep)
        route = Route.of(plan)
        os.chdir("/")
    if route.drops_last and not route.has_namespaces:
        with applying("uid"):
            _hand_over(plan)
    return route


def _hand_over(plan: BoxPlan) -> None:
    """Give the scratch folder to the box's user. Not what lies in it, nor through a link."""
    folder = os.open(plan.scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(folder, plan.slot_uid, plan.slot_uid)
    finally:
        os.close(folder)


def _die_with_caller(parent: int) -> None:
    privileges.die_with_parent()
    if os.getppid() != parent:
        os._exit(SETUP_FAILED)


def _await(child: int, plan: BoxPlan, route: Route) -> None:
    """Until the keeper is gone, and with it everything in the box."""
    os.waitpid(child, 0)
    if not route.has_namespaces:
        sweep.end_descendants(route.slot_uid(plan))


def _end_like(status: int) -> NoReturn:
    """End as a process with this wait status did, but without a dump."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    which = os.WTERMSIG(status)
    limits.forbid_dumps()
    if which != signal.SIGKILL:
        signal.signal(which, signal.SIG_DFL)
    os.kill(os.getpid(), which)
    # The signal is one that ends a process, and none is blocked.
    os._exit(128 + which)
