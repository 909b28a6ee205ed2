"""Outside: what the prober puts up to be attacked, and what it sees of the attacks."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from egg_mcp.sandbox.worker.isolation.attempt import Targets
from egg_mcp.sandbox.worker.isolation.host_attempts import LEFT_FILE, start_time
from egg_mcp.sandbox.worker.isolation.plan import BoxPlan

_GPU_NODE = re.compile(r"nvidia[\w-]*")
_LONGEST_FOLDER = 70
_PROBE_SIGNAL = signal.SIGURG
_ARRIVING = ("connect_tcp", "send_udp", "connect_abstract_unix", "connect_unix_path")
SEEN_HERE = frozenset({*_ARRIVING, "signal_process", LEFT_FILE})
"""Attempts that got through if, and only if, the prober saw it."""


@dataclass(frozen=True)
class Outside:
    """The listeners, the secret file and the folder that a box without namespaces works in."""

    tcp: socket.socket
    udp: socket.socket
    abstract: socket.socket
    named: socket.socket
    folder: Path
    scratch: Path

    @property
    def _left(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-left")

    def targets(self, plan: BoxPlan) -> Targets:
        """What the attempts are told."""
        return Targets(
            pid=os.getpid(),
            started=start_time(os.getpid()),
            tcp_port=self.tcp.getsockname()[1],
            udp_port=self.udp.getsockname()[1],
            abstract_name=self.abstract.getsockname()[1:].decode(),
            socket_path=str(self.folder / "socket"),
            secret_path=str(self.folder / "secret"),
            left_path=str(self._left),
            folders=(str(self.folder), *plan.read_only),
            hidden=plan.hidden,
            shown=plan.read_only,
            gpu_nodes=_gpu_nodes(),
            granted_nodes=plan.devices,
            limits=plan.limits,
        )

    def reached(self) -> set[str]:
        """Which attempts were seen to arrive; forgets them."""
        listeners = (self.tcp, self.udp, self.abstract, self.named)
        seen = {name for name, sock in zip(_ARRIVING, listeners, strict=True) if _has_arrival(sock)}
        if signal.sigtimedwait({_PROBE_SIGNAL}, 0) is not None:
            seen.add("signal_process")
        if self._left.exists():
            seen.add(LEFT_FILE)
            self._left.unlink()
        return seen


@contextmanager
def put_up() -> Generator[Outside]:
    """Put everything up; take everything away afterwards.

    Raises:
        OSError: no room, no loopback.
    """
    with contextlib.ExitStack() as stack:
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {_PROBE_SIGNAL})
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, old_mask)
        made = tempfile.TemporaryDirectory(prefix="box-probe-", dir=_short_folder())
        folder = Path(stack.enter_context(made))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="box-probe-")))
        (folder / "secret").write_bytes(b"secret")

        def listening(family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
            sock = stack.enter_context(socket.socket(family, kind))
            sock.bind(address)
            if kind == socket.SOCK_STREAM:
                sock.listen(8)
            sock.setblocking(False)
            return sock

        yield Outside(
            tcp=listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            udp=listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            abstract=listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{folder.name}"),
            named=listening(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket")),
            folder=folder,
            scratch=scratch,
        )


def _short_folder() -> str:
    """Where a unix socket may have its path: that takes 107 characters at most."""
    usual = tempfile.gettempdir()
    if len(usual) <= _LONGEST_FOLDER:
        return usual
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/tmp"  # noqa: S108 - mkdtemp


def _gpu_nodes() -> tuple[str, ...]:
    return tuple(
        sorted(
            str(path)
            for path in Path("/dev").iterdir()
            if _GPU_NODE.fullmatch(path.name) and not path.is_dir()
        )
    )


def _has_arrival(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    any_yet = False
    while poll.poll(0):
        any_yet = True
        if sock.type == socket.SOCK_STREAM:
            sock.accept()[0].close()
        else:
            sock.recv(16)
    return any_yet
