"""Channel: the worker's end of the socket. Frames in, frames out, descriptors along with them."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Sequence
from typing import Any, cast

from egg_mcp.sandbox import frames

MAX_DESCRIPTORS = 8


class Channel:
    """Blocking, one frame at a time."""

    def __init__(self, descriptor: int) -> None:
        # ptxas and other children of user code must not hold the socket open.
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next message and its descriptors; None at the end of the stream.

        Raises:
            FrameError: bytes that are no frame.
        """
        header, descriptors, _, _ = socket.recv_fds(
            self._socket, frames.HEADER.size, MAX_DESCRIPTORS
        )
        if not header:
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        header += self._exactly(frames.HEADER.size - len(header))
        return frames.decode(self._exactly(frames.body_length(header))), descriptors

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one frame, descriptors along with it; a message too long becomes an error reply."""
        try:
            data = frames.encode(clean(message))
        except frames.FrameError as error:
            data = frames.encode(
                {"ok": False, "error": {"kind": "reply_too_long", "message": str(error)}}
            )
        sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else 0
        self._socket.sendall(data[sent:])

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise frames.FrameError(f"stream ended {count - len(parts)} bytes early")
            parts += part
        return bytes(parts)


def clean(value: Any) -> Any:
    """The value with nothing in it that JSON or UTF-8 refuses.

    Non-finite floats become None, lone surrogates `?`, keys strings.

    >>> clean({1: float("nan"), "a": ("b",)})
    {'1': None, 'a': ['b']}
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        pairs = cast("dict[object, Any]", value)
        return {clean(str(key)): clean(entry) for key, entry in pairs.items()}
    if isinstance(value, (list, tuple)):
        entries = cast("list[Any]", value)
        return [clean(entry) for entry in entries]
    return value
