"""How long a verdict takes: the second and later candidates of a session, at `quick` rigor.

Each way to start a worker runs in the same process on the same Problems, one after the other:
a cold Python for every candidate, and the fork of a zygote, in its box. Every candidate has a
constant of its own, so each is compiled anew.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio

from benchmarks.result_file import device_slug, write_result
from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.plain_launcher import PlainLauncher
from egg_mcp.sandbox.sample_statistics import percentile
from egg_mcp.sandbox.starting import StartLauncher, start_launcher
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.verdict import Rigor

_CANDIDATES = {"zygote": 6, "cold process": 4}
"""How many are measured: the slow way is not the one that matters."""
_PHASES = ("start", "build", "first_call", "trials", "timing")
_WAYS: dict[str, StartLauncher] = {"zygote": start_launcher, "cold process": PlainLauncher.start}

_REFERENCE = '''"""Row softmax."""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn({rows}, {columns})]
'''
_CANDIDATE = """import torch
import triton
import triton.language as tl
from torch import nn

VARIANT = {variant}


@triton.jit
def softmax_rows(x_ptr, out_ptr, columns, VARIANT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=mask, other=-float("inf"))
    top = tl.max(x, axis=0)
    e = tl.exp(x - top)
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        softmax_rows[(rows,)](x, out, columns, VARIANT=VARIANT, BLOCK=block, num_warps=8)
        return out
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the Problem's one input."""

    rows: int
    columns: int

    @property
    def megabytes(self) -> float:
        """The input's size."""
        return self.rows * self.columns * 4 / 1e6


_ON_GPU = (Shape(4096, 4096), Shape(8192, 16384))
_ON_CPU = (Shape(64, 256),)


@dataclass(frozen=True, slots=True)
class Sample:
    """One verdict."""

    all_ms: float
    phases_ms: dict[str, float]


def run(out: str) -> int:
    """Measure and write the table; 1 when a candidate that is right was not judged so."""
    lines = anyio.run(_measure)
    write_result(out, "latency", device_slug(), "\n".join(lines) + "\n")
    return 0 if lines else 1


async def _measure() -> list[str]:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(state_dir=Path(folder), worker_python=Path(sys.executable))
        for name, start in _WAYS.items():
            async with LocalExecutor(settings, start) as executor:
                device = await executor.device()
                shapes = _ON_GPU if device.kind == "cuda" else _ON_CPU
                for shape in shapes if name == "zygote" else shapes[:1]:
                    samples = await _session(executor, shape, _CANDIDATES[name])
                    lines += _table(f"{name}, {shape.megabytes:.3g} MB in", samples)
            lines.append(f"  {device.name}; sandbox: {device.sandbox}")
            print("\n".join(lines[-1:]), flush=True)
    return lines


async def _session(executor: LocalExecutor, shape: Shape, candidates: int) -> list[Sample]:
    """One session: the first candidate also pays for the reference, and is left out."""
    source = _REFERENCE.format(rows=shape.rows, columns=shape.columns)
    problem = Problem(problem_hash=content_hash(source), title="softmax", source=source)
    samples: list[Sample] = []
    for variant in range(candidates + 1):
        began = time.perf_counter()
        found = await executor.evaluate(
            problem,
            _CANDIDATE.format(variant=variant),
            PrecisionPolicy.STRICT,
            Rigor.QUICK,
            _quiet,
        )
        all_ms = (time.perf_counter() - began) * 1e3
        if not found.verdict.status.is_correct:
            raise SystemExit(f"variant {variant}: {found.verdict.explanation}")
        samples.append(Sample(all_ms, found.verdict.phases_ms))
    return samples[1:]


def _table(title: str, samples: list[Sample]) -> list[str]:
    lines = [f"{title}: {len(samples)} verdicts", f"  {'':<12}{'median':>10}{'p90':>10}"]
    rows = {name: [one.phases_ms.get(name, 0.0) for one in samples] for name in _PHASES}
    rows["rest"] = [one.all_ms - sum(one.phases_ms.values()) for one in samples]
    rows["all"] = [one.all_ms for one in samples]
    for name, values in rows.items():
        lines.append(f"  {name:<12}{median(values):>7.0f} ms{percentile(values, 0.9):>7.0f} ms")
    print("\n".join(lines), flush=True)
    return lines


async def _quiet(_: str) -> None:
    """Progress is not shown."""
