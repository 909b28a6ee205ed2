"""Collects the wheels that a bare GPU machine needs: python benchmarks/wheelhouse.py FOLDER.

Such a machine has Python, torch and triton, but no network. Everything else that the server and
its tests import is fetched here, pinned as in `.ci/constraints.txt`, for its Python. There:

    python -m pip install --no-index --no-deps --target SITE FOLDER/*.whl
    PYTHONPATH=SITE:. python -m pytest -m gpu
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
ROOTS = ("mcp", "pydantic", "anyio", "platformdirs", "pyyaml", "pytest", "pytest-timeout")
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")


def pins() -> dict[str, str]:
    """Package in its normal form -> the pinned requirement."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {normal(line.split("=")[0]): line for line in lines if "==" in line}


def normal(name: str) -> str:
    """The name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(pinned: dict[str, str]) -> list[str]:
    """The pinned requirements of the roots and of all they need."""
    todo: list[tuple[str, str]] = [(normal(name), "") for name in ROOTS]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen or name not in pinned:
            continue
        seen.add((name, extra))
        for text in requires(name) or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                todo.extend((normal(need.name), wanted) for wanted in ("", *need.extras))
    return sorted({pinned[name] for name, _ in seen})


def main() -> int:
    """Download into the folder; returns pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--python-version", default="3.12")
    parser.add_argument("--machine", default="x86_64")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", options.python_version, "--implementation", "cp"]
    for platform in PLATFORMS:
        command += ["--platform", f"{platform}_{options.machine}"]
    command += ["-d", options.folder, *closure(pins())]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
