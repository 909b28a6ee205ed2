"""The commands beside `serve`, as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.real_server import environment, source

CALLS: list[dict[str, Any]] = [
    {
        "tool": "design_algorithm",
        "arguments": {"reference_file": "good_add.py"},
        "expect": {"status": "done"},
    },
    {
        "tool": "design_algorithm",
        "arguments": {"session_id": "$session_id", "kernel_file": "add_right.py"},
        "expect": {"verdict": ["pass", "emulated_pass"]},
    },
]


def egg_mcp(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "egg_mcp", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(EGG_DEVICE="emulated"),
        check=False,
    )


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A folder with a recording of the vector addition."""
    for kind, name in (("references", "good_add"), ("candidates", "add_right")):
        (tmp_path / f"{name}.py").write_text(source(kind, name), encoding="utf-8")
    file = tmp_path / "session.json"
    _write(file, CALLS)
    return file


def _write(file: Path, calls: list[dict[str, Any]]) -> None:
    document = {"format": "egg-replay/1", "title": "Sum of two vectors", "calls": calls}
    file.write_text(json.dumps(document), encoding="utf-8")


def test_replay_runs_a_recording_and_sessions_lists_what_it_made(
    recording: Path, tmp_path: Path
) -> None:
    state = str(tmp_path / "state")

    done = egg_mcp("replay", str(recording), "--state-dir", state, "--out", str(tmp_path / "out"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "emulated_pass" in done.stdout
    assert "no speed was measured" in done.stdout
    assert (tmp_path / "out" / "report.md").is_file()
    listed = egg_mcp("sessions", "--state-dir", state)
    assert listed.returncode == 0
    assert "1 sessions" in listed.stdout
    assert "champion 1, not timed" in listed.stdout


def test_replay_says_which_call_came_out_otherwise(recording: Path, tmp_path: Path) -> None:
    _write(recording, [CALLS[0], {**CALLS[1], "expect": {"verdict": ["wrong"]}}])

    done = egg_mcp("replay", str(recording), "--out", str(tmp_path / "out"))

    assert done.returncode == 1
    assert "not what the recording expects" in done.stdout


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("{}", "format"),
        ("not JSON", "JSON"),
        ('{"format": "egg-replay/9", "title": "x", "calls": []}', "egg-replay/1"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_in_words(
    tmp_path: Path, text: str, phrase: str
) -> None:
    file = tmp_path / "session.json"
    file.write_text(text, encoding="utf-8")

    done = egg_mcp("replay", str(file))

    assert done.returncode == 2
    assert str(file) in done.stderr
    assert phrase in done.stderr


def test_doctor_names_state_software_and_device(tmp_path: Path) -> None:
    done = egg_mcp("doctor", "--state-dir", str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tmp_path / "egg.sqlite3") in done.stdout
    assert "torch" in done.stdout
    assert "Triton interpreter" in done.stdout
    assert "FAIL" not in done.stdout


def test_doctor_says_how_to_mend_a_python_that_is_not_there(tmp_path: Path) -> None:
    done = egg_mcp("doctor", "--state-dir", str(tmp_path), "--worker-python", "/nonexistent/python")

    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "--worker-python" in done.stdout


@pytest.mark.parametrize("command", ["serve", "doctor", "sessions"])
def test_a_state_folder_that_cannot_be_used_is_said_with_the_way_out(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "state").write_text("a file", encoding="utf-8")

    done = egg_mcp(command, "--state-dir", str(tmp_path / "state"))

    assert done.returncode in (1, 2)
    assert "--state-dir" in done.stdout + done.stderr
    if command == "serve":
        assert done.stdout == ""
