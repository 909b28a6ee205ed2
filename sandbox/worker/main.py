"""The loop: says ready, then answers one request at a time until the parent closes the socket."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from egg_mcp.sandbox.worker.channel import Channel
from egg_mcp.sandbox.worker.op_error import OpError, from_exception

EXIT_FAILED = 3

Operation = Callable[[dict[str, Any]], dict[str, Any]]


def serve(role: str, descriptor: int, device: str) -> None:
    """Answer requests until the socket ends; never returns."""
    channel = Channel(descriptor)
    try:
        worker = start(role, device)
    except OpError as error:
        channel.send({"type": "failed", "error": {"kind": error.kind, "message": error.message}})
        os._exit(EXIT_FAILED)
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
        channel.send(reply)


def start(role: str, wanted: str) -> Any:
    """The role's worker, with torch loaded and the device settled.

    Raises:
        OpError: `no_torch` or `no_cuda`.
    """
    try:
        torch = importlib.import_module("torch")
    except Exception as error:
        raise OpError(
            "no_torch", f"{sys.executable} cannot import torch: {type(error).__name__}: {error}"
        ) from error
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise OpError("no_cuda", f"torch {torch.__version__} sees no CUDA device")
    emulated = wanted == "emulated" or not has_cuda
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    if emulated:
        # Triton reads this once, when it is imported.
        os.environ["TRITON_INTERPRET"] = "1"
        torch.set_num_threads(min(2, os.cpu_count() or 1))
        for part in ("emulated_driver", "emulated_dot"):
            importlib.import_module(f"egg_mcp.sandbox.worker.{part}").install()
    try:
        device = importlib.import_module("egg_mcp.sandbox.worker.device").Device(emulated)
    except RuntimeError as error:
        raise OpError("no_cuda", f"the CUDA device does not start: {error}") from error
    module = importlib.import_module(f"egg_mcp.sandbox.worker.{role}")
    return module.Referee(device) if role == "referee" else module.Candidate(device)


def answer(worker: Any, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """The reply to one request; whatever happens, a reply."""
    name = str(request.get("op"))
    try:
        if name == "open_files":
            worker.files.open(descriptors)
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
