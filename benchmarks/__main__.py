"""`python -m benchmarks NAME`: the one entry point."""

from __future__ import annotations

import argparse
import importlib

NAMES = {
    "demo": "the demo's three Problems through all stages, as a result file",
    "escapes": "attacks on the sandbox: which get through, bare and boxed",
    "faults": "injected faults: is each called what it is, and is the next job right",
    "latency": "how long a verdict takes, by phase: cold process against zygote",
    "soak": "many evaluations with random faults: does anything leak",
}


def main() -> int:
    """Run the named benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, meaning in NAMES.items():
        command = commands.add_parser(name, help=meaning)
        command.add_argument("--out", default="benchmarks/results", help="folder for the result")
        if name == "faults":
            command.add_argument("--only", default="", help="groups, separated by commas")
        if name == "escapes":
            command.add_argument("--bare", action="store_true", help="attack without a box, too")
        if name == "soak":
            command.add_argument("--evaluations", type=int, default=500, help="how many")
            command.add_argument("--seed", type=int, help="of the mix, to have the same again")
    options = vars(parser.parse_args())
    return int(importlib.import_module(f"benchmarks.{options.pop('name')}").run(**options))


if __name__ == "__main__":
    raise SystemExit(main())
