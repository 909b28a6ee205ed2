"""`egg-mcp demo`: three Problems through all five stages, on the real server."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import anyio

from egg_mcp.cli.recording import load_recording
from egg_mcp.cli.replay import out_folder, replay_settings
from egg_mcp.cli.replay_table import table
from egg_mcp.cli.replayer import Replay, replay
from egg_mcp.settings import Settings

PROBLEMS = ("row_softmax", "linear_gelu_scale", "residual_layernorm")


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Replay the recordings that come with the package; 0 when all is as recorded, else 1."""
    out = out_folder(options.out)
    settings = replay_settings(options, environment, out)
    began = time.monotonic()
    with as_file(files("egg_mcp") / "demo") as folder:
        done = anyio.run(_all, folder, out, settings)
    print(table(done))
    print(f"everything: {out}  state: {settings.state_file}")
    print(f"see them: egg-mcp sessions --state-dir {settings.state_dir}")
    print(f"took {time.monotonic() - began:.0f} s")
    return 0 if all(one.met for one in done) else 1


async def _all(folder: Path, out: Path, settings: Settings) -> list[Replay]:
    done: list[Replay] = []
    for name in PROBLEMS:
        recording = load_recording(folder / name / "session.json")
        done.append(await replay(recording, folder / name, out / name, settings, print))
    return done
