"""The loop: says ready, then answers one request at a time until the parent closes the socket."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from egg_mcp.sandbox.worker import engine
from egg_mcp.sandbox.worker.channel import Channel
from egg_mcp.sandbox.worker.op_error import OpError, from_exception

EXIT_FAILED = 3
TAKE_DESCRIPTORS = ("open_files", "open_memory")

Operation = Callable[[dict[str, Any]], dict[str, Any]]


def serve(role: str, descriptor: int, device: str) -> None:
    """Load torch, then answer requests until the socket ends; never returns."""
    channel = Channel(descriptor)
    try:
        torch = engine.load_torch()
        # A compiler compiles in earnest, and has no device.
        emulated = role != "compiler" and engine.is_emulated(device, torch.cuda.is_available())
        engine.load_triton(emulated)
    except OpError as error:
        fail(channel, error.kind, error.message)
    run(role, channel, emulated)


def run(role: str, channel: Channel, emulated: bool) -> None:
    """Answer requests until the socket ends; never returns. Torch and triton are loaded."""
    try:
        worker = engine.make_worker(role, emulated)
    except OpError as error:
        fail(channel, error.kind, error.message)
    worker.device.tell = partial(note, channel)
    channel.send({"type": "ready", "role": role, "device": worker.device.facts()})
    while True:
        try:
            received = channel.receive()
        except (OSError, ValueError):
            os._exit(EXIT_FAILED)
        if received is None:
            os._exit(0)
        reply = answer(worker, *received)
        flush()
        respond(channel, reply)


def respond(channel: Channel, reply: dict[str, Any]) -> None:
    """Send a reply; the `descriptors` in it go along, and are closed here."""
    descriptors = reply.pop("descriptors", None)
    if descriptors is None:
        channel.send(reply)
        return
    channel.send(reply, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def note(channel: Channel, place: str) -> None:
    """Tell the parent where this worker is, in the middle of a request."""
    channel.send({"type": "note", "at": place})


def fail(channel: Channel, kind: str, message: str) -> NoReturn:
    """Tell the parent why this worker will not come up, and end."""
    channel.send({"type": "failed", "error": {"kind": kind, "message": message}})
    os._exit(EXIT_FAILED)


def answer(worker: Any, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """The reply to one request; whatever happens, a reply."""
    name = str(request.get("op"))
    try:
        if name in TAKE_DESCRIPTORS:
            worker.files.take(name, request, descriptors)
            return {"ok": True}
        for descriptor in descriptors:
            os.close(descriptor)
        return {"ok": True, **operation_of(worker, name)(request)}
    except OpError as error:
        return {"ok": False, "error": {**error.reply(), "phase": error.phase or name}}
    except BaseException as error:  # noqa: BLE001 - user code must never end the loop
        kind = "bad_request" if isinstance(error, KeyError) else "exception"
        failure = from_exception(error, name, worker.user_file, kind)
        return {"ok": False, "error": failure.reply()}


def operation_of(worker: Any, name: str) -> Operation:
    """The worker's operation of that name.

    Raises:
        OpError: it has none.
    """
    operation: Operation | None = worker.operations.get(name)
    if operation is None:
        raise OpError("bad_request", f"no operation {name!r}")
    return operation


def flush() -> None:
    """Push out what user code printed, so that the parent has it before the reply."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001, S112 - user code may have replaced or closed them
            continue
