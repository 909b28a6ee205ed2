"""A worker that says what it is told to: `{op: [reply, [what to open and send along]]}`."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from typing import Any

HEADER = struct.Struct(">4sI")
READY = {"kind": "cuda", "name": "said", "python": "3", "torch": "2", "triton": None}


def send(line: socket.socket, message: dict[str, Any], paths: list[str]) -> None:
    """One frame, with the descriptor of each path."""
    body = json.dumps(message).encode()
    opened = [os.open(path, os.O_RDONLY) for path in paths]
    data = HEADER.pack(b"EGG1", len(body)) + body
    socket.send_fds(line, [data], opened) if opened else line.sendall(data)
    for descriptor in opened:
        os.close(descriptor)


def receive(line: socket.socket) -> tuple[dict[str, Any], int] | None:
    """The next message and how many descriptors came with it."""
    header, descriptors, _, _ = socket.recv_fds(line, HEADER.size, 8)
    if not header:
        return None
    body = line.recv(HEADER.unpack(header)[1], socket.MSG_WAITALL)
    for descriptor in descriptors:
        os.close(descriptor)
    return json.loads(body), len(descriptors)


def speak(line: socket.socket, script: dict[str, Any]) -> None:
    """Answer until the other side is gone."""
    send(line, {"type": "ready", "device": READY}, script.get("ready", []))
    seen: list[str] = []
    while (received := receive(line)) is not None:
        op = received[0]["op"]
        seen.append(f"{op} {received[1]}")
        reply, paths = script.get(op, [{"ok": True}, []])
        send(line, {**reply, "seen": seen}, paths)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        speak(own, json.loads(sys.argv[2]))
