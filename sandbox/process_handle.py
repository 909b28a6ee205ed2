"""ProcessHandle: a worker's process as the parent holds it: kill it, wait for it, ask its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Protocol

import anyio
import anyio.abc

_REPORT_S = 2.0
"""How long the zygote may take to report the exit code of a guard that has ended."""


_CLEAR_S = 10.0
"""How long the kernel may take to clear up after it; a GPU context takes a moment."""


class ProcessHandle(Protocol):
    """A process and everything that it has started."""

    @property
    def pid(self) -> int:
        """Its id; it leads a process group of that number."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, reaped or not."""
        ...

    def kill(self) -> None:
        """SIGKILL to all of it. May be called again."""
        ...

    async def wait(self) -> int | None:
        """Its exit code, negative for a signal; None when nobody can tell."""
        ...


class SpawnedProcess:
    """A child of this process; it and its process group."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """As `ProcessHandle`."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """As `ProcessHandle`."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """As `ProcessHandle`."""
        kill_group(self.pid)

    async def wait(self) -> int | None:
        """As `ProcessHandle`."""
        code = await self._process.wait()
        # Once more: a fork that raced the first signal is in the group, too.
        kill_group(self.pid)
        return code


class ForkedProcess:
    """A guard that a zygote has forked: held by a pidfd, so never mistaken for another."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self._pid = pid
        self._pidfd: int | None = pidfd
        self._code: int | None = None
        self._reported = anyio.Event()
        self._cleared = anyio.Event()

    @property
    def pid(self) -> int:
        """As `ProcessHandle`."""
        return self._pid

    @property
    def has_ended(self) -> bool:
        """As `ProcessHandle`."""
        if self._pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def kill(self) -> None:
        """As `ProcessHandle`. The guard's end takes the whole box with it."""
        if self._pidfd is None or self.has_ended:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        # Without a pid namespace its group may hold more than the guard.
        kill_group(self._pid)

    async def wait(self) -> int | None:
        """As `ProcessHandle`. Lets the pidfd go."""
        if self._pidfd is not None:
            await anyio.wait_readable(self._pidfd)
        if self._pidfd is not None:
            kill_group(self._pid)
            os.close(self._pidfd)
            self._pidfd = None
        with anyio.move_on_after(_REPORT_S):
            await self._reported.wait()
        # A zygote that does not report will not clear up either.
        if self._reported.is_set():
            with anyio.move_on_after(_CLEAR_S):
                await self._cleared.wait()
        return self._code

    def report(self, code: int | None) -> None:
        """The zygote has said how it ended, or will never say."""
        if not self._reported.is_set():
            self._code = code
        self._reported.set()

    def clear(self) -> None:
        """The zygote has said that nothing is left of what it had started."""
        self._cleared.set()


def kill_group(group: int) -> None:
    """SIGKILL to a process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
