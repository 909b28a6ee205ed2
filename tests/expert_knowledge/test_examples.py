"""Every example of every page runs: on the GPU where torch sees one, else interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.expert_knowledge.guideline import find_fences, stage_folder
from egg_mcp.vocabulary.stage import Stage

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("triton") is None,
    reason="the examples need torch and triton",
)

MAX_SECONDS_INTERPRETED = 20
"""Far above what an example needs; only a runaway loop is over it on a busy machine."""


@dataclass(frozen=True, slots=True)
class Example:
    page: str
    line: int
    code: str
    needs_gpu: bool

    @property
    def file_name(self) -> str:
        return self.page.replace("/", "__").replace(".md", ".py")


def all_examples() -> list[Example]:
    root = files("egg_mcp.expert_knowledge")
    found: list[Example] = []
    for folder in map(stage_folder, Stage):
        pages = sorted((root / folder).iterdir(), key=lambda page: page.name)
        for page in (page for page in pages if page.name.endswith(".md")):
            for fence in find_fences(page.read_text(encoding="utf-8")):
                if fence.info.startswith("python"):
                    needs_gpu = "gpu" in fence.info.split()
                    found.append(
                        Example(f"{folder}/{page.name}", fence.line, fence.code, needs_gpu)
                    )
    return found


EXAMPLES = all_examples()


def torch_sees_a_gpu() -> bool:
    """Ask another process: importing torch here would slow down the whole test run."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def has_gpu() -> bool:
    return torch_sees_a_gpu()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, has_gpu: bool) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("examples")
    report = folder / "report.json"
    for example in EXAMPLES:
        if has_gpu or not example.needs_gpu:
            # Blank lines above, so that a traceback names the page's own line.
            padded = "\n" * (example.line - 1) + example.code
            (folder / example.file_name).write_text(padded, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if not has_gpu:
        environment["TRITON_INTERPRET"] = "1"
    runner = Path(__file__).with_name("run_examples.py")
    finished = subprocess.run(
        [sys.executable, "-P", str(runner), str(folder), str(report)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=[f"{example.page}:{example.line}" for example in EXAMPLES]
)
def test_example_runs_and_its_assertions_hold(
    example: Example, outcomes: dict[str, Any], has_gpu: bool
) -> None:
    if example.needs_gpu and not has_gpu:
        pytest.skip("the example is marked `python gpu` and torch sees no GPU")
    outcome = outcomes[example.file_name]
    assert not outcome["error"], f"{example.page}:{example.line}\n{outcome['error']}"
    if not has_gpu:
        assert outcome["seconds"] < MAX_SECONDS_INTERPRETED


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.page for example in EXAMPLES])
def test_example_defines_launches_and_checks_a_kernel(example: Example) -> None:
    assert "@triton.jit" in example.code
    assert "](" in example.code, "no kernel is launched"
    assert "assert" in example.code, "nothing is compared"
    assert 'device = "cuda" if torch.cuda.is_available() else "cpu"' in example.code
