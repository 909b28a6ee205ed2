"""Starts a worker in whatever Python runs this file. Standard library only.

The worker's Python is often the user's own and has no `egg_mcp`, so this file makes empty
packages of that name that reach no further than this folder's parent.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import signal
import sys
import types
from pathlib import Path

PR_SET_PDEATHSIG = 1
ROLES = ("referee", "candidate", "canary", "compiler")
HERE = Path(__file__).resolve().parent


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end now if it has already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def make_packages(sandbox_folder: Path) -> None:
    """Put `egg_mcp` and `egg_mcp.sandbox` into `sys.modules` without running their code."""
    # Python before 3.11 has no -P: this folder's own names would hide the user's modules.
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != HERE]
    for name, folders in (("egg_mcp", []), ("egg_mcp.sandbox", [str(sandbox_folder)])):
        package = types.ModuleType(name)
        package.__path__ = folders
        sys.modules[name] = package


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line: `--role --socket --parent --device`."""
    parser = argparse.ArgumentParser(description="EGG MCP worker; started by the server.")
    parser.add_argument("--role", choices=(*ROLES, "zygote"), required=True)
    parser.add_argument("--socket", type=int, required=True, help="inherited descriptor")
    parser.add_argument("--parent", type=int, required=True, help="process id to die with")
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse(sys.argv[1:])
    die_with(options.parent)
    make_packages(HERE.parent)
    # A candidate sees no word of how it was started.
    sys.argv[:] = ["worker"]
    module = "zygote" if options.role == "zygote" else "main"
    loop = importlib.import_module(f"egg_mcp.sandbox.worker.{module}")
    loop.serve(options.role, options.socket, options.device)
