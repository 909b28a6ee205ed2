"""Listeners: every kind of socket of this machine that a box must not reach."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

_NO_PACKET = ("192.0.2.1", 9)
"""Set aside for documents (RFC 5737); naming a UDP socket's peer sends nothing."""


@dataclass(slots=True)
class Listeners:
    """Open sockets, by name."""

    open_sockets: dict[str, socket.socket] = field(default_factory=dict[str, socket.socket])
    addresses: dict[str, object] = field(default_factory=dict[str, object])
    """Name -> where it is: a port, a path or an abstract name."""

    @classmethod
    def open(cls, folder: Path, label: str) -> Listeners:
        """Listen on all of them; what this machine does not have is left out."""
        found = cls()
        found.addresses["address"] = other_address()
        inet, inet6, unix = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        found._add("tcp", inet, stream, ("0.0.0.0", 0))  # noqa: S104 - also from our own address
        found._add("tcp6", inet6, stream, ("::1", 0))
        found._add("udp", inet, datagram, ("127.0.0.1", 0))
        found._add("path", unix, stream, str(folder / f"{label}.socket"))
        found._add("abstract", unix, stream, f"\0{label}")
        found._add("datagram", unix, datagram, f"\0{label}-datagram")
        if hasattr(socket, "AF_VSOCK"):
            found._add("vsock", socket.AF_VSOCK, stream, (0xFFFF_FFFF, 0xFFFF_FFFF))
        return found

    def _add(self, name: str, family: int, kind: int, address: object) -> None:
        sock = socket.socket(family, kind)
        try:
            sock.bind(address)  # pyright: ignore[reportArgumentType] - of this family
            if kind == socket.SOCK_STREAM:
                sock.listen()
        except OSError:
            sock.close()
            self.addresses[name] = None
            return
        sock.setblocking(False)
        self.open_sockets[name] = sock
        bound: object = sock.getsockname()
        if family == socket.AF_UNIX:
            self.addresses[name] = bound.decode() if isinstance(bound, bytes) else bound
        else:
            self.addresses[name] = sock.getsockname()[1]

    def arrived(self) -> str:
        """What came; empty when nothing did."""
        found: list[str] = []
        for name, sock in self.open_sockets.items():
            with contextlib.suppress(BlockingIOError):
                if sock.type == socket.SOCK_DGRAM:
                    data, descriptors, _, _ = socket.recv_fds(sock, 1_024, 4)
                    found.append(f"{name}: {data[:40]!r} and {len(descriptors)} descriptors")
                    for each in descriptors:
                        os.close(each)
                else:
                    connection, _ = sock.accept()
                    connection.close()
                    found.append(f"{name}: a connection")
        return "; ".join(found)

    def close(self) -> None:
        """Close all."""
        for sock in self.open_sockets.values():
            if sock.family == socket.AF_UNIX and (path := sock.getsockname())[:1] not in (
                b"\0",
                "",
            ):
                Path(str(path)).unlink(missing_ok=True)
            sock.close()


def other_address() -> str | None:
    """An address of this machine that is not loopback; None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(_NO_PACKET)
        except OSError:
            return None
        address = str(sock.getsockname()[0])
    return None if address.startswith("127.") else address


def free_port() -> int:
    """A TCP port that nobody has now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
