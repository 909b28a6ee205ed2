"""Engine: torch and triton, imported and set up, with no device touched yet."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

from egg_mcp.sandbox.worker.op_error import OpError

_ROLES = ("referee", "candidate", "canary", "compiler")
_EMULATED_PARTS = ("emulated_driver", "emulated_dot")


def load_torch() -> Any:
    """Import torch.

    Raises:
        OpError: `no_torch`.
    """
    try:
        return importlib.import_module("torch")
    except Exception as error:
        raise OpError(
            "no_torch", f"{sys.executable} cannot import torch: {type(error).__name__}: {error}"
        ) from error


def is_emulated(wanted: str, has_cuda: bool) -> bool:
    """Whether the Triton interpreter stands in for a GPU.

    Raises:
        OpError: `no_cuda`: a GPU was asked for, and there is none.
    """
    if wanted == "cuda" and not has_cuda:
        torch = load_torch()
        raise OpError("no_cuda", f"torch {torch.__version__} sees no CUDA device")
    return wanted == "emulated" or not has_cuda


def variables(emulated: bool) -> dict[str, str]:
    """What must stand in the environment, when Triton is imported and as long as it is used."""
    fusion = {"TRITON_DEFAULT_FP_FUSION": "1"}
    return {**fusion, "TRITON_INTERPRET": "1"} if emulated else fusion


def load_triton(emulated: bool) -> None:
    """Import triton in the mode that is wanted; may be called again."""
    os.environ.update(variables(emulated))
    if not emulated:
        return
    for part in _EMULATED_PARTS:
        importlib.import_module(f"egg_mcp.sandbox.worker.{part}").install()


def load_roles(emulated: bool) -> None:
    """Import all that a worker needs, so that its forks find it imported.

    Nothing here may run an operation or start a thread: a fork after that hangs
    (pytorch#17199). Triton hashes its own libraries for the first compile (0.35 s), imports
    gluon for the first launch (0.1 s) and builds its driver module (0.3 s): done here, once.
    """
    for role in _ROLES:
        importlib.import_module(f"egg_mcp.sandbox.worker.{role}")
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")
        if not emulated:
            importlib.import_module("egg_mcp.sandbox.worker.warm_triton").warm_up()


def make_worker(role: str, emulated: bool) -> Any:
    """The role's worker on its device.

    Raises:
        OpError: `no_cuda`: the device does not start.
    """
    torch = load_torch()
    if emulated:
        torch.set_num_threads(min(2, os.cpu_count() or 1))
    try:
        # A compiler gets no device to touch.
        on_cpu = emulated or role == "compiler"
        device = importlib.import_module("egg_mcp.sandbox.worker.device").Device(on_cpu)
    except RuntimeError as error:
        raise OpError("no_cuda", f"the CUDA device does not start: {error}") from error
    module = importlib.import_module(f"egg_mcp.sandbox.worker.{role}")
    return getattr(module, role.capitalize())(device)
