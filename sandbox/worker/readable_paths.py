"""ReadablePaths: what a worker must be able to read to run Python, torch, triton and CUDA."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_FOLDER_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_LIST_VARIABLES = ("LD_LIBRARY_PATH", "PATH")
_TOOL_VARIABLES = ("CC", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
_TOO_WIDE = frozenset(
    f"/{name}"
    for name in ("", "home", "root", "tmp", "var", "dev", "proc", "sys", "run", "etc", "mnt", "opt")
)
"""Never opened as a whole, whatever a variable says."""


def readable_paths() -> list[str]:
    """Folders and files of this Python, of its packages and of the CUDA toolkit, that exist.

    A home folder as such is not among them: only what `sys.path` and the variables name in it.
    """
    home = str(Path("~").expanduser())
    found = dict.fromkeys(os.path.normpath(path) for path in _named() if path.startswith("/"))
    return [path for path in found if path != home and _may_be_shown(path)]


def _named() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_paths()["include"])
    yield str(Path(sys.executable).resolve().parent.parent)
    yield from sys.path
    yield str(Path(__file__).resolve().parent.parent)
    for name in _FOLDER_VARIABLES:
        yield os.environ.get(name, "")
    for name in _LIST_VARIABLES:
        yield from os.environ.get(name, "").split(os.pathsep)
    for name in _TOOL_VARIABLES:
        yield from _tool(os.environ.get(name, ""))
    yield os.environ.get("TRITON_LIBCUDA_PATH", "")


def _tool(path: str) -> Iterator[str]:
    """A program and, where it stands in a `bin`, what is installed beside it: a compiler's parts."""
    if not path.startswith("/"):
        return
    yield path
    folder = Path(path).resolve().parent
    yield str(folder)
    # `~/.local`, say, holds much that is no tool's.
    if folder.name == "bin" and not folder.parent.name.startswith("."):
        yield str(folder.parent)


def _may_be_shown(path: str) -> bool:
    return os.path.realpath(path) not in _TOO_WIDE and Path(path).exists()


def nvidia_nodes() -> list[str]:
    """The device nodes of the one GPU that workers use, and those that every GPU needs.

    A GPU that CUDA_VISIBLE_DEVICES names by UUID is one of all: then all are passed through.
    """
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    own = Path(f"/dev/nvidia{first}")
    nodes = [own] if first.isdecimal() and own.exists() else list(Path("/dev").glob("nvidia[0-9]*"))
    if not nodes:
        return []
    shared = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    nodes += [node for name in shared if (node := Path("/dev", name)).exists()]
    nodes += Path("/dev/nvidia-caps").glob("*")
    return sorted(map(str, nodes))
