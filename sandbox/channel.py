"""Channel: the parent's end of a socket pair to a worker or a zygote."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from egg_mcp.sandbox import frames

_CHUNK_BYTES = 1 << 18
_MOST_DESCRIPTORS = 8


@dataclass(slots=True)
class Channel:
    """Frames out and in. Descriptors that come unasked are closed."""

    sock: socket.socket
    takes_descriptors: bool = False
    """Whether the other side may send descriptors: it is trusted code."""
    _received: list[int] = field(default_factory=list[int])
    _buffer: bytearray = field(default_factory=bytearray)
    """What has come of the next message: a wait that is cut short loses nothing."""

    @classmethod
    def pair(cls, *, takes_descriptors: bool = False) -> tuple[Channel, socket.socket]:
        """Our end, and the socket to hand over."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return cls(ours, takes_descriptors), theirs

    async def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one frame, descriptors along with it."""
        view = memoryview(frames.encode(message))
        while view:
            await anyio.wait_writable(self.sock)
            try:
                sent = socket.send_fds(self.sock, [view], fds) if fds else self.sock.send(view)
            except BlockingIOError:
                continue
            fds = ()
            view = view[sent:]

    async def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            anyio.EndOfStream, ConnectionError: the other side is gone.
            FrameError: it sent something else than a frame.
        """
        await self._fill(frames.HEADER.size)
        end = frames.HEADER.size + frames.body_length(bytes(self._buffer[: frames.HEADER.size]))
        await self._fill(end)
        body = bytes(self._buffer[frames.HEADER.size : end])
        del self._buffer[:end]
        return frames.decode(body)

    def take_descriptors(self) -> list[int]:
        """Descriptors that came with the last message, eight at most; the caller owns them."""
        taken, self._received = self._received, []
        return taken

    def drop_descriptors(self) -> None:
        """Close those that came and were not taken."""
        for descriptor in self.take_descriptors():
            os.close(descriptor)

    def close(self) -> None:
        """Close the socket and what came through it."""
        self.drop_descriptors()
        self.sock.close()

    async def _fill(self, count: int) -> None:
        """Read until the buffer holds so many bytes, and no byte of the message after."""
        while len(self._buffer) < count:
            await anyio.wait_readable(self.sock)
            try:
                part = self._read(min(count - len(self._buffer), _CHUNK_BYTES))
            except BlockingIOError:
                continue
            if not part:
                raise anyio.EndOfStream
            self._buffer += part

    def _read(self, most: int) -> bytes:
        # A plain `recv` lets the kernel drop descriptors that nobody asked for.
        if not self.takes_descriptors:
            return self.sock.recv(most)
        part, descriptors, _, _ = socket.recv_fds(self.sock, most, _MOST_DESCRIPTORS)
        for descriptor in descriptors:
            if len(self._received) < _MOST_DESCRIPTORS:
                os.set_inheritable(descriptor, False)
                self._received.append(descriptor)
            else:
                os.close(descriptor)
        return part
