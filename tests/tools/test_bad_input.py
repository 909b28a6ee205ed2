"""What a client may send by mistake: each is refused in words, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.service.source_input import SURROGATE_STAND_IN
from tests.tools.desk import REFERENCE, Desk, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio

REFERENCES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no Model": (
        {"reference_code": "def get_inputs(): ..."},
        ["does not define 'Model'", "class Model(nn.Module)"],
    ),
    "no get_inputs": (
        {"reference_code": "class Model: ..."},
        ["does not define 'get_inputs'", "`get_inputs()` that returns"],
    ),
    "neither": ({"reference_code": "x = 1"}, ["'Model' and 'get_inputs'"]),
    "syntax error": (
        {"reference_code": "class Model:\n  def"},
        ["syntax error in line 2", "call design_algorithm again"],
    ),
    "empty": ({"reference_code": " \n"}, ["reference_code is empty", "send Python source"]),
    "nothing": ({}, ["give reference_code", "session_status()"]),
    "code and file": (
        {"reference_code": REFERENCE, "reference_file": "a.py"},
        ["reference_code or reference_file, not both"],
    ),
    "5 MB": (
        {"reference_code": REFERENCE + "#" * 5_000_000},
        ["at most 1000000", "EGG_MAX_SOURCE_BYTES", "get_inputs()"],
    ),
    "NUL": ({"reference_code": "\n" + REFERENCE + "\0"}, ["NUL byte in line", "remove it"]),
    "surrogate stand-in": (
        {"reference_code": "\n" + SURROGATE_STAND_IN},
        ["not valid Unicode in line 2", "UTF-8"],
    ),
    "wrong enum": (
        {"reference_code": REFERENCE, "precision": "exact"},
        ["precision", "'strict', 'tf32_ok' or 'lowp_ok'"],
    ),
    "deep nesting": ({"reference_code": "(" * 5_000}, ["the reference"]),
    "with a kernel": (
        {"reference_code": REFERENCE, "kernel_code": "x"},
        ["open the session first", "verify_and_benchmark(reference_code=..., kernel_code=...)"],
    ),
}

SUBMISSIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "empty": ({"kernel_code": ""}, ["kernel_code is empty"]),
    "code and file": ({"kernel_code": "x", "kernel_file": "y"}, ["not both"]),
    "5 MB": ({"kernel_code": "#" * 5_000_000}, ["kernel_code is 5000000 bytes", "at most"]),
    "NUL": ({"kernel_code": "a\n\0"}, ["NUL byte in line 2"]),
    "surrogate stand-in": ({"kernel_code": SURROGATE_STAND_IN}, ["not valid Unicode"]),
    "unknown parent": (
        {"kernel_code": kernel(9.0), "parent": 7},
        ["no candidate 7: it has 1 to 1", "session_status("],
    ),
    "parent zero": ({"kernel_code": kernel(9.0), "parent": 0}, ["greater than or equal to 1"]),
    "vast parent": ({"kernel_code": kernel(9.0), "parent": 10**30}, ["it has 1 to 1"]),
    "huge wait": ({"kernel_code": kernel(9.0), "wait_s": 1e9}, ["wait_s", "equal to 50"]),
    "negative wait": ({"kernel_code": kernel(9.0), "wait_s": -1}, ["wait_s", "equal to 0"]),
    "wrong detail": ({"detail": "everything"}, ["detail", "'concise' or 'full'"]),
    "many guidelines": (
        {"kernel_code": kernel(9.0), "guidelines_applied": ["a"] * 10_000},
        ["guidelines_applied", "at most 20 items"],
    ),
    "long guideline": (
        {"kernel_code": kernel(9.0), "guidelines_applied": ["a" * 1_000]},
        ["guidelines_applied", "at most 100 characters"],
    ),
    "long rationale": (
        {"kernel_code": kernel(9.0), "rationale": "a" * 3_000},
        ["rationale", "at most 2000 characters"],
    ),
    "with a reference": (
        {"reference_code": REFERENCE},
        ["a session's reference never changes", "leave session_id out"],
    ),
    "with a reference file": ({"reference_file": "a.py"}, ["leave the reference out"]),
}


async def _nothing_is_lost(desk: Desk, session_id: str) -> None:
    status = await desk.call("session_status", session_id=session_id)
    assert (status["stage"], status["total"]) == ("design_algorithm", 1)
    assert (await desk.submit(session_id, kernel(2.0)))["champion"] == 2


@in_both_eras
async def test_bad_reference_is_refused_in_words_and_opens_nothing(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        for name, (arguments, words) in REFERENCES.items():
            refusal = await desk.refused("design_algorithm", **arguments)
            assert [word for word in words if word not in refusal] == [], (name, refusal)
            assert len(refusal) < 2_000, name
        assert (await desk.call("session_status"))["total"] == 0
        assert await desk.open()


@in_both_eras
async def test_bad_submission_is_refused_in_words_and_nothing_is_lost(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        for name, (arguments, words) in SUBMISSIONS.items():
            given = {"session_id": session_id, **arguments}
            refusal = await desk.refused("design_algorithm", **given)
            assert [word for word in words if word not in refusal] == [], (name, refusal)
            assert len(refusal) < 2_000, name
        await _nothing_is_lost(desk, session_id)


@in_both_eras
async def test_session_id_of_ten_thousand_characters_is_refused_briefly(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        for tool in ("design_algorithm", "tune_tiling", "session_status", "export_kernel"):
            refusal = await desk.refused(tool, session_id="x" * 10_000)
            assert "at most 64 characters" in refusal
            assert len(refusal) < 1_000
        refusal = await desk.refused("get_job", job_id="x" * 10_000)
        assert "at most 64 characters" in refusal


async def test_judging_alone_needs_both_sources_and_no_session(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        verify = "verify_and_benchmark"
        refusal = await desk.refused(verify, reference_code=REFERENCE)
        assert "reference_code and kernel_code" in refusal
        refusal = await desk.refused(verify, session_id=session_id, kernel_code=kernel(2.0))
        assert "goes to design_algorithm or a tuning stage" in refusal
        refusal = await desk.refused(verify, reference_code="x", kernel_code="y")
        assert "does not define 'Model' and 'get_inputs'" in refusal
        refusal = await desk.refused(verify, session_id=session_id, rigor="utmost")
        assert "'quick' or 'final'" in refusal


def _a_pipe(file: Path) -> None:
    os.mkfifo(file)


BAD_FILES: dict[str, tuple[Callable[[Path], object] | None, str]] = {
    "missing.py": (None, "is not a file; name one inside the workspace"),
    "folder": (Path.mkdir, "is not a file"),
    "": (None, "is not a file"),
    "latin.py": (lambda file: file.write_bytes(b"x = '\xe9'"), "is not UTF-8 text"),
    "empty.py": (lambda file: file.write_text(""), "kernel_file is empty"),
    "large.py": (lambda file: file.write_bytes(b"#" * 1_000_001), "at most 1000000 are taken"),
    "pipe.py": (_a_pipe, "is not a file"),
    "loop.py": (lambda file: file.symlink_to(file.name), "loop.py"),
    "out.py": (lambda file: file.symlink_to("/etc/hostname"), "outside the workspace"),
    "~nobody-of-that-name/x.py": (None, "cannot be resolved"),
    "../x.py": (None, "outside the workspace"),
    "/etc/hostname": (None, "outside the workspace"),
    "a\0b": (None, "is not a file name"),
    "n" * 300: (None, "cannot be read"),
}


@in_both_eras
async def test_bad_file_is_refused_in_words(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        for name, (make, words) in BAD_FILES.items():
            if make is not None:
                make(desk.settings.workspace / name)
            refusal = await desk.refused(
                "design_algorithm", session_id=session_id, kernel_file=name
            )
            assert words in refusal, (name, refusal)
        await _nothing_is_lost(desk, session_id)


async def test_file_of_the_workspace_is_as_good_as_its_text(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        workspace = desk.settings.workspace
        (workspace / "sub").mkdir()
        (workspace / "sub" / "rows.py").write_text("class Model: ...\nget_inputs = list\n")
        (workspace / "fast.py").write_text(kernel(1.5), encoding="utf-8")
        opened = await desk.call("design_algorithm", reference_file="sub/rows.py")
        assert "rows" in opened["summary"]
        session_id = opened["session_id"]
        by_file = await desk.call(
            "design_algorithm", session_id=session_id, kernel_file=str(workspace / "fast.py")
        )
        assert (await desk.submit(session_id, kernel(1.5)))["job_id"] == by_file["job_id"]


async def test_no_file_is_read_over_http(tmp_path: Path) -> None:
    async with open_desk(tmp_path, transport="http") as desk:
        (desk.settings.workspace / "a.py").write_text(REFERENCE, encoding="utf-8")
        refusal = await desk.refused("design_algorithm", reference_file="a.py")
        assert "not available over HTTP" in refusal
        assert "Send the text itself" in refusal
        assert await desk.open()
