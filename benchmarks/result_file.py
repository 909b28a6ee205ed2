"""ResultFile: a benchmark's output with date and versions on top."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("torch", "triton", "mcp", "pydantic", "anyio")


def write_result(folder: str, name: str, device: str, text: str) -> Path:
    """Write the result and say where.

    Args:
        folder: where to; made when missing.
        name: the benchmark.
        device: short name of what it ran on, for the file's name.
        text: what the benchmark printed.
    """
    now = datetime.now(UTC)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{now:%Y-%m-%d}-{name}-{device}.txt"
    head = [f"{name}, {now:%Y-%m-%d %H:%M} UTC", _versions(), _gpu(), ""]
    file.write_text("\n".join(head) + "\n" + text, encoding="utf-8")
    print(f"result: {file}")
    return file


def device_slug() -> str:
    """The GPU's name in letters, digits and hyphens, or `cpu`."""
    gpu = _gpu()
    name = gpu.split(",")[0].removeprefix("GPU: ") if "none" not in gpu else "cpu"
    return "-".join("".join(c if c.isalnum() else " " for c in name).lower().split())


def _versions() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def _gpu() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "GPU: none"
    query = [tool, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, encoding="utf-8", check=False)
    return f"GPU: {done.stdout.strip().splitlines()[0]}" if done.returncode == 0 else "GPU: none"
