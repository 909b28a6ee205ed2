"""ReadablePaths: what a worker must be able to read to run Python, torch, triton and CUDA."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_FOLDER_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_LIST_VARIABLES = ("LD_LIBRARY_PATH", "PATH")
_FILE_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBCUDA_PATH", "CC")
_TOO_WIDE = frozenset(
    f"/{name}"
    for name in ("", "home", "root", "tmp", "var", "dev", "proc", "sys", "run", "etc", "mnt")
)
"""Never opened as a whole, whatever a variable says."""


def readable_paths() -> list[str]:
    """Folders and files of this Python, of its packages and of the CUDA toolkit, that exist.

    A home folder as such is not among them: only what `sys.path` and the variables name in it.
    """
    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_paths()["include"]]
    found += [str(Path(sys.executable).resolve().parent.parent), *sys.path]
    found.append(str(Path(__file__).resolve().parent.parent))
    found += [os.environ.get(name, "") for name in (*_FOLDER_VARIABLES, *_FILE_VARIABLES)]
    for name in _LIST_VARIABLES:
        found += os.environ.get(name, "").split(os.pathsep)
    home = str(Path("~").expanduser())
    narrow = [os.path.normpath(path) for path in found if path.startswith("/")]
    return [path for path in dict.fromkeys(narrow) if path != home and _is_open_to_all(path)]


def _is_open_to_all(path: str) -> bool:
    return os.path.realpath(path) not in _TOO_WIDE and Path(path).exists()


def nvidia_nodes() -> list[str]:
    """The device nodes of the one GPU that workers use, and those that every GPU needs."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    own = f"/dev/nvidia{first}" if first.isdigit() else ""
    nodes = (
        [own] if own and Path(own).exists() else sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))
    )
    if not nodes:
        return []
    shared = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
    caps = sorted(map(str, Path("/dev/nvidia-caps").glob("*")))
    return [*nodes, *(node for node in shared if Path(node).exists()), *caps]
