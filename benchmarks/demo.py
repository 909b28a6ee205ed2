"""The demo as a benchmark: its whole output, with date, GPU, driver and versions."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.result_file import device_slug, write_result


def run(out: str) -> int:
    """Run `egg-mcp demo` and keep what it prints; returns its exit code."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "egg_mcp", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    print(done.stdout)
    write_result(out, "demo", device_slug(), done.stdout)
    return done.returncode
