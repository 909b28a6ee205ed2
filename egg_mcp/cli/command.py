"""Arguments and sub-commands of `egg-mcp`; each command imports what it needs when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from egg_mcp import __version__
from egg_mcp.errors import EggError
from egg_mcp.settings import Settings

_DESCRIPTION = (
    "MCP server that turns an LLM client into a careful GPU-kernel engineer. Without a command it "
    "serves one client over standard input and output."
)
_NAMED_SETTINGS = ("state_dir", "workspace", "worker_python", "device", "sandbox", "transport")
_COMMANDS = {
    "serve": "serve MCP (the default)",
    "demo": "drive the real server through three Problems",
    "replay": "run a recorded session again",
    "doctor": "say what works on this machine, and how to mend what does not",
    "sessions": "list the sessions of a state folder",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    command = options.command or "serve"
    try:
        # Imported late: `doctor` must run where half of the rest cannot.
        run = importlib.import_module(f"egg_mcp.cli.{command}").run
        return int(run(options, os.environ))
    except EggError as error:
        print(f"egg-mcp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="egg-mcp", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"egg-mcp {__version__}")
    _add_settings(parser, suppress=False)
    _add_transport(parser, suppress=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, help_text in _COMMANDS.items():
        command = commands.add_parser(name, help=help_text, description=help_text)
        _add_settings(command, suppress=True)
        if name == "serve":
            _add_transport(command, suppress=True)
        if name == "replay":
            command.add_argument("file", help="a recording, format egg-replay/1")
        if name in ("demo", "replay"):
            command.add_argument("--out", help="folder for what is made (default: a new one)")
    return parser


def _add_settings(parser: argparse.ArgumentParser, *, suppress: bool) -> None:
    # A sub-command's own default must not undo what stood before it.
    default = argparse.SUPPRESS if suppress else None
    for flag, meaning in (
        ("--state-dir", "folder of the state file (EGG_STATE_DIR)"),
        ("--workspace", "folder that files are read from and written to (EGG_WORKSPACE)"),
        ("--worker-python", "Python with torch and triton that runs kernels (EGG_WORKER_PYTHON)"),
    ):
        parser.add_argument(flag, default=default, metavar="PATH", help=meaning)
    parser.add_argument(
        "--device",
        default=default,
        choices=("auto", "cuda", "emulated"),
        help="what kernels run on (EGG_DEVICE; default auto)",
    )
    parser.add_argument(
        "--sandbox",
        default=default,
        choices=("auto", "strict", "off"),
        help="what stands between kernels and this machine (EGG_SANDBOX; default auto)",
    )
    limits = parser.add_argument_group("limits and deadlines, each also as EGG_... in capitals")
    for name, field in Settings.model_fields.items():
        if name not in _NAMED_SETTINGS:
            # argparse reads a percent sign as the start of a field of its own.
            meaning = " ".join((field.description or "").split()).replace("%", "%%")
            flag = f"--{name.replace('_', '-')}"
            limits.add_argument(flag, default=default, metavar="NUMBER", help=meaning)


def _add_transport(parser: argparse.ArgumentParser, *, suppress: bool) -> None:
    def default(value: object) -> object:
        return argparse.SUPPRESS if suppress else value

    parser.add_argument("--transport", default=default("stdio"), choices=("stdio", "http"))
    parser.add_argument("--host", default=default("127.0.0.1"), help="for http; loopback only")
    parser.add_argument("--port", default=default(8000), type=int, help="for http")
