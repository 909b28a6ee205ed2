"""The demo's recordings are whole, and their kernels do what the recordings say of them."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from egg_mcp.vocabulary.stage import SUBMITTING_STAGES, Stage
from egg_mcp.vocabulary.verdict import VerdictStatus

DEMO = Path(str(files("egg_mcp"))) / "demo"
PROBLEMS = sorted(path.parent.name for path in DEMO.glob("*/session.json"))
KERNELS = [
    (problem, path.name)
    for problem in PROBLEMS
    for path in sorted((DEMO / problem).glob("[0-9]*.py"))
]
MAX_ERROR_RATIO = 4.0
"""An honest kernel's error over the reference's own; the strict policy allows 16."""
MIN_WRONG_RATIO = 100.0
"""The deliberate mistakes must be far outside, not near the limit."""
MAX_SUBMISSIONS = 6
EXPORT = "export_kernel"

Call: TypeAlias = dict[str, Any]
Measured: TypeAlias = dict[str, dict[str, dict[str, Any]]]


def recording(problem: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        (DEMO / problem / "session.json").read_text(encoding="utf-8")
    )
    return loaded


def calls(problem: str) -> list[Call]:
    found: list[Call] = recording(problem)["calls"]
    return found


def submissions(problem: str) -> list[Call]:
    return [call for call in calls(problem) if "kernel_file" in call["arguments"]]


def constants_of(path: Path) -> set[str]:
    """Names that a file assigns at module level, in the form that the demo can rewrite."""
    return set(re.findall(r"^([A-Z_]+) = .*$", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """What one process measured of all kernels at the sizes for machines without a GPU."""
    if find_spec("torch") is None or find_spec("triton") is None:
        pytest.skip("the kernels need torch and triton")
    folder = tmp_path_factory.mktemp("demo")
    for problem in PROBLEMS:
        (folder / problem).mkdir()
        constants: dict[str, int | str] = recording(problem)["without_gpu"]["constants"]
        for source in (DEMO / problem).glob("*.py"):
            code = source.read_text(encoding="utf-8")
            for name, value in constants.items():
                code = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", code, flags=re.MULTILINE)
            (folder / problem / source.name).write_text(code, encoding="utf-8")
    report = folder / "report.json"
    probe = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)"
    has_gpu = subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
    environment = os.environ | ({} if has_gpu else {"TRITON_INTERPRET": "1"})
    runner = Path(__file__).parent / "run_kernels.py"
    subprocess.run(
        [sys.executable, str(runner), str(folder), str(report)],
        check=True,
        env=environment,
        timeout=240,
    )
    outcome: Measured = json.loads(report.read_text(encoding="utf-8"))
    return outcome


def test_there_are_three_problems() -> None:
    assert PROBLEMS == ["linear_gelu_scale", "residual_layernorm", "row_softmax"]


@pytest.mark.parametrize(("problem", "kernel_file"), KERNELS)
def test_a_kernel_is_right_exactly_if_its_recording_expects_so(
    problem: str, kernel_file: str, measured: Measured
) -> None:
    (call,) = [
        call for call in submissions(problem) if call["arguments"]["kernel_file"] == kernel_file
    ]
    expects_wrong = call["expect"]["verdict"] == [VerdictStatus.WRONG]
    outcome = measured[problem][kernel_file]

    assert "error" not in outcome, outcome["error"]
    if expects_wrong:
        assert outcome["ratio"] > MIN_WRONG_RATIO
    else:
        assert outcome["ratio"] < MAX_ERROR_RATIO


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_recording_submits_every_kernel_file_once_in_the_order_of_their_numbers(
    problem: str,
) -> None:
    submitted = [call["arguments"]["kernel_file"] for call in submissions(problem)]

    assert submitted == sorted(path.name for path in (DEMO / problem).glob("[0-9]*.py"))
    assert len(submitted) <= MAX_SUBMISSIONS


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_recording_goes_through_all_stages_in_order_and_ends_with_the_export(
    problem: str,
) -> None:
    tools = list(dict.fromkeys(call["tool"] for call in calls(problem)))

    assert tools == [*Stage, EXPORT]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("stage", SUBMITTING_STAGES)
def test_a_stage_asks_for_its_brief_once_before_it_submits(problem: str, stage: Stage) -> None:
    submits = [
        "kernel_file" in call["arguments"] for call in calls(problem) if call["tool"] == stage
    ]

    assert submits[0] is False
    assert len(submits) > 1
    assert all(submits[1:])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_parent_was_submitted_before_its_child(problem: str) -> None:
    for number, call in enumerate(submissions(problem), start=1):
        parent: int | None = call["arguments"].get("parent")
        assert (parent is None) == (number == 1)
        assert parent is None or 1 <= parent < number


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_design_stage_shows_one_mistake(problem: str) -> None:
    wrong = [
        call["tool"]
        for call in submissions(problem)
        if call["expect"]["verdict"] == [VerdictStatus.WRONG]
    ]

    assert wrong == [Stage.DESIGN_ALGORITHM]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_rationale_is_one_to_four_sentences(problem: str) -> None:
    for call in submissions(problem):
        rationale: str = call["arguments"]["rationale"]
        assert 1 <= len(re.findall(r"[.](?:\s|$)", rationale)) <= 4


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_constant_changed_without_a_gpu_is_in_the_reference_or_in_kernels(
    problem: str,
) -> None:
    names = set(recording(problem)["without_gpu"]["constants"])
    in_reference = constants_of(DEMO / problem / "reference.py")
    kernels = [constants_of(path) for path in (DEMO / problem).glob("[0-9]*.py")]

    for name in names:
        assert (name in in_reference) != any(name in kernel for kernel in kernels)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_first_line_of_the_reference_is_the_title_of_the_recording(problem: str) -> None:
    reference = (DEMO / problem / "reference.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(reference)) or ""

    assert docstring.splitlines()[0] == recording(problem)["title"] + "."
    assert recording(problem)["format"] == "egg-replay/1"
