"""Run every example of the guideline pages in one process and report on each as JSON.

Started by `test_examples.py`. Triton reads a kernel's source from its file, and it decides on
the interpreter when it is imported: hence real files, and a process of its own.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
import traceback
from pathlib import Path


def run_example(path: Path) -> dict[str, str | float]:
    """Run one file; `error` is its traceback, empty when it ended well."""
    started = time.perf_counter()
    error = ""
    try:
        runpy.run_path(str(path), run_name="__main__")
    except BaseException:  # noqa: BLE001 - an example that calls exit must not end the others
        error = traceback.format_exc()
    return {"error": error, "seconds": time.perf_counter() - started}


def main(folder: Path, report: Path) -> None:
    """Run all files of the folder, in order of their names."""
    outcomes = {path.name: run_example(path) for path in sorted(folder.glob("*.py"))}
    report.write_text(json.dumps(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
