"""Attempt: one thing that code in a box must not get done, tried from inside."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from egg_mcp.sandbox.worker.isolation.plan import Limits

_NOT_REACHED = {errno.EPERM, errno.EACCES, errno.ENOSYS}


@dataclass(frozen=True)
class Targets:
    """What lies outside the box and is attacked from inside.

    Attributes:
        pid: the prober's process id.
        started: when it started, in clock ticks since boot: tells it from a namesake.
        tcp_port: of its listener on loopback.
        udp_port: of its listener on loopback.
        abstract_name: of its unix listener without a path.
        socket_path: of its unix listener with one.
        secret_path: a file of its own in a folder of its own.
        left_path: where a file would be seen by the prober.
        folders: where nothing may be written.
        hidden: what must look empty, but for the way to what is shown below it.
        shown: what may be read.
        gpu_nodes: the host's GPU device nodes.
        granted_nodes: those that the box may open.
        limits: what the box is limited to.
    """

    pid: int
    started: str
    tcp_port: int
    udp_port: int
    abstract_name: str
    socket_path: str
    secret_path: str
    left_path: str
    folders: tuple[str, ...]
    hidden: tuple[str, ...]
    shown: tuple[str, ...]
    gpu_nodes: tuple[str, ...]
    granted_nodes: tuple[str, ...]
    limits: Limits


Attempt = Callable[[Targets], str]
"""Says what it got done; raises OSError where it was refused."""


@dataclass(frozen=True)
class Result:
    """How an attempt went.

    Attributes:
        got_through: whether it was not refused.
        said: what was seen.
    """

    got_through: bool
    said: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"got_through": self.got_through, "said": self.said}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        """What `to_json` wrote."""
        return cls(bool(value["got_through"]), str(value["said"]))


def run(attempt: Attempt, targets: Targets) -> Result:
    """Try it. What fails in a way that nobody foresaw counts as having got through."""
    try:
        return Result(True, attempt(targets))
    except OSError as error:
        return Result(False, errno.errorcode.get(error.errno or 0, str(error)))
    except Exception as error:  # noqa: BLE001 - see above
        return Result(True, f"unclear: {error!r}")


def reaching(make_call: Callable[[], object]) -> str:
    """Make a system call: only "not permitted" and "no such call" count as refused.

    Raises:
        OSError: refused.
    """
    try:
        made = make_call()
    except OSError as error:
        if error.errno in _NOT_REACHED:
            raise
        return f"reached the kernel, which said {errno.errorcode.get(error.errno or 0)}"
    return f"done, {made!r}"
