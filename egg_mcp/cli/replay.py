"""`egg-mcp replay FILE`: a recorded session, run again."""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio

from egg_mcp.cli.options import settings_of
from egg_mcp.cli.recording import load_recording
from egg_mcp.cli.replay_table import table
from egg_mcp.cli.replayer import replay
from egg_mcp.settings import Settings


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Replay the file; 0 when every call came to what the recording expects, else 1."""
    file = Path(options.file).absolute()
    recording = load_recording(file)
    out = out_folder(options.out)
    settings = replay_settings(options, environment, out)
    done = anyio.run(functools.partial(replay, recording, file.parent, out, settings, print))
    print(table([done]))
    print(f"state: {settings.state_file}")
    return 0 if done.met else 1


def out_folder(named: str | None) -> Path:
    """The folder for what is made."""
    if named is None:
        return Path(tempfile.mkdtemp(prefix="egg-mcp-"))
    folder = Path(named).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def replay_settings(
    options: argparse.Namespace, environment: Mapping[str, str], out: Path
) -> Settings:
    """The settings for the server: a state of its own unless one is named, so nothing is reused."""
    if options.state_dir is None:
        options.state_dir = str(Path(tempfile.mkdtemp(prefix="state-", dir=out)))
    return settings_of(options, environment)
