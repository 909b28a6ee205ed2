"""`python -m benchmarks NAME`: the one entry point."""

from __future__ import annotations

import argparse
import importlib

NAMES = {
    "demo": "the demo's three Problems through all stages, as a result file",
    "latency": "how long a verdict takes, by phase: cold process against zygote",
}


def main() -> int:
    """Run the named benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, meaning in NAMES.items():
        command = commands.add_parser(name, help=meaning)
        command.add_argument("--out", default="benchmarks/results", help="folder for the result")
    options = parser.parse_args()
    return int(importlib.import_module(f"benchmarks.{options.name}").run(options.out))


if __name__ == "__main__":
    raise SystemExit(main())
