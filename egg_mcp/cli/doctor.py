"""`egg-mcp doctor`: what works on this machine, and the command that mends what does not."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version

import anyio

from egg_mcp import __version__
from egg_mcp.cli.options import settings_of
from egg_mcp.errors import EggError, SandboxError
from egg_mcp.executor import LocalExecutor
from egg_mcp.expert_knowledge.library import load_library
from egg_mcp.settings import Settings
from egg_mcp.store import Store
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.sandbox import SandboxReport

_LEAST_FREE_BYTES = 1_000_000_000


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Check one thing after the other; 0 when everything needed works, else 1."""
    settings = settings_of(options, environment)
    sound = True
    print(f"egg-mcp {__version__}, Python {sys.version.split()[0]}, mcp {version('mcp')}")
    for check in (_state, _workspace, _guidelines, _worker):
        try:
            for line in check(settings):
                # What is set in belongs to the line before it.
                print(f"{'' if line.startswith(' ') else 'ok':<6}{line}")
        except EggError as error:
            sound = False
            print(f"FAIL  {error}")
    print(
        f"note  only these variables reach a worker: CUDA_*, LD_LIBRARY_PATH; this server sees "
        f"CUDA_VISIBLE_DEVICES={environment.get('CUDA_VISIBLE_DEVICES', '(unset)')}"
    )
    return 0 if sound else 1


def _state(settings: Settings) -> list[str]:
    store = Store.open(settings.state_dir)
    store.close()
    free = shutil.disk_usage(settings.state_dir).free
    lines = [f"state: {settings.state_file}, {free / 1e9:.1f} GB free"]
    if free < _LEAST_FREE_BYTES:
        lines.append("that is little: results are lost when the disk is full (--state-dir DIR)")
    return lines


def _workspace(settings: Settings) -> list[str]:
    return [f"workspace: {settings.workspace} (files are read only inside; --workspace DIR)"]


def _guidelines(settings: Settings) -> list[str]:
    del settings
    library = load_library()
    count = sum(len(library.of_stage(stage)) for stage in library.stages())
    return [f"guidelines: {count} in {len(library.stages())} stages"]


def _worker(settings: Settings) -> list[str]:
    device, sandbox = anyio.run(_probe, settings)
    lines = [
        (
            f"worker: {settings.worker_python}, Python {device.python}, torch {device.torch}, "
            f"triton {device.triton}"
        ),
        f"device: {device.name}" + (f" ({device.arch})" if device.arch else ""),
        *_box(sandbox),
    ]
    if device.triton is None:
        raise SandboxError(
            "the worker's Python has no triton, so no Triton kernel can run. Install it there: "
            "pip install 'egg-mcp[torch]'"
        )
    if device.kind == "emulated":
        lines.append(
            "no GPU: verdicts are emulated_pass at best and no speed is measured. With a GPU, "
            "install a CUDA build of torch into the worker's Python"
        )
    return lines


def _box(report: SandboxReport) -> list[str]:
    """What holds, with proof; what does not, with the reason and the way out."""
    lines = [f"sandbox: {report.short}"]
    for one in report.properties:
        held = f"by {', '.join(one.by)}" if one.by else ""
        why = f"; missing: {one.why}" if one.why else ""
        lines.append(f"  {one.name}: {one.state} {held} ({one.proof}){why}")
    lines += [f"  {layer} cannot be had: {why}" for layer, why in report.failed.items()]
    lines += [f"  to mend it: {command}" for command in report.fix]
    if report.not_defended:
        lines.append(f"  not defended by any tier: {'; '.join(report.not_defended)}")
    return lines


async def _probe(settings: Settings) -> tuple[DeviceFacts, SandboxReport]:
    async with LocalExecutor(settings) as executor:
        return await executor.device(), await executor.sandbox()
