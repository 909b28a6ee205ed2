"""The commands beside `serve`, as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.real_server import ANSWER_S, environment, reference, source

OPEN: dict[str, Any] = {
    "tool": "design_algorithm",
    "arguments": {"reference_file": "good_add.py"},
    "expect": {"status": "done"},
}
SUBMIT: dict[str, Any] = {
    "tool": "design_algorithm",
    "arguments": {"session_id": "$session_id", "kernel_file": "add_right.py"},
    "expect": {"verdict": ["pass", "emulated_pass"]},
}
NO_SUCH_FILE: dict[str, Any] = {
    "tool": "design_algorithm",
    "arguments": {"session_id": "$session_id", "kernel_file": "missing.py"},
}


def egg_mcp(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "egg_mcp", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(**{"EGG_DEVICE": "emulated", "TMPDIR": str(folder), **env}),
        check=False,
        timeout=ANSWER_S,
    )


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A folder with a recording of the vector addition."""
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "good_add.py").write_text(reference(), encoding="utf-8")
    (folder / "add_right.py").write_text(source("candidates", "add_right"), encoding="utf-8")
    file = folder / "session.json"
    write(file, OPEN, SUBMIT)
    return file


def write(file: Path, *calls: dict[str, Any]) -> None:
    document = {"format": "egg-replay/1", "title": "Sum of two vectors", "calls": calls}
    file.write_text(json.dumps(document), encoding="utf-8")


def test_replay_runs_a_recording_and_sessions_lists_what_it_made(
    recording: Path, tmp_path: Path
) -> None:
    state, out = str(tmp_path / "state"), tmp_path / "out"
    write(
        recording,
        OPEN,
        SUBMIT,
        {"tool": "export_kernel", "arguments": {"session_id": "$session_id"}},
    )

    done = egg_mcp(tmp_path, "replay", str(recording), "--state-dir", state, "--out", str(out))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "emulated_pass" in done.stdout
    assert "no speed was measured" in done.stdout
    assert "emulated_pass" in (out / "report.md").read_text(encoding="utf-8")
    assert "Model = ModelNew" in (out / "exported_kernel.py").read_text(encoding="utf-8")
    listed = egg_mcp(tmp_path, "sessions", EGG_STATE_DIR=state)
    assert listed.returncode == 0
    first, *lines = listed.stdout.splitlines()
    assert first == f"1 sessions in {state}/egg.sqlite3"
    assert len(lines) == 1
    assert "champion 1, not timed" in lines[0]
    assert "The sum of two vectors" in lines[0]


def test_replay_says_which_call_came_out_otherwise(recording: Path, tmp_path: Path) -> None:
    (recording.parent / "add_right.py").write_text("ModelNew = 1 / 0\n", encoding="utf-8")
    write(recording, OPEN, SUBMIT, NO_SUCH_FILE)

    done = egg_mcp(tmp_path, "replay", str(recording), "--out", str(tmp_path / "out"))

    assert done.returncode == 1, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "not what the recording expects" in line]
    # It went on after the first.
    assert len(told) == 2
    assert "build_failed" in told[0]
    assert "missing.py" in told[1]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (b"{}", "format"),
        (b"not JSON", "JSON"),
        (b'{"format": "egg-replay/9", "title": "x", "calls": []}', "egg-replay/1"),
        (b"\xff\xfe", "cannot be read"),
        (None, "cannot be read"),
    ],
    ids=["empty", "not JSON", "another format", "binary", "missing"],
)
def test_a_file_that_is_no_recording_is_refused_in_words(
    tmp_path: Path, text: bytes | None, phrase: str
) -> None:
    file = tmp_path / "session.json"
    if text is not None:
        file.write_bytes(text)

    done = egg_mcp(tmp_path, "replay", str(file))

    assert done.returncode == 2
    assert done.stdout == ""
    assert str(file) in done.stderr
    assert phrase in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_state_software_and_device(tmp_path: Path) -> None:
    done = egg_mcp(tmp_path, "doctor", "--state-dir", str(tmp_path / "state"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert f"state: {tmp_path}/state/egg.sqlite3" in done.stdout
    assert f"worker: {os.path.abspath(sys.executable)}, Python 3." in done.stdout  # noqa: PTH100
    assert "torch 2." in done.stdout
    assert "device: " in done.stdout
    assert "Triton interpreter" in done.stdout
    assert "sandbox: tier" in done.stdout
    for name in ("fs_write", "fs_read", "net", "other_procs", "reaping", "limits"):
        assert f"  {name}: " in done.stdout
    assert "emulated_pass at best" in done.stdout
    assert "FAIL" not in done.stdout


@pytest.mark.parametrize(
    ("script", "phrases"),
    [
        (None, ["cannot start"]),
        ("exit 7", ["no worker comes up"]),
        (f'exec {sys.executable} -S "$@"', ["cannot import torch", "egg-mcp[torch]"]),
    ],
    ids=["missing", "no Python", "no torch"],
)
def test_doctor_says_how_to_mend_a_python_that_cannot_work(
    tmp_path: Path, script: str | None, phrases: list[str]
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        python.chmod(0o700)

    done = egg_mcp(tmp_path, "doctor", "--state-dir", str(tmp_path), "--worker-python", str(python))

    assert done.returncode == 1, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1
    for phrase in (str(python), "--worker-python", *phrases):
        assert phrase in failed[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("command", "exit_code"), [("serve", 2), ("sessions", 2), ("doctor", 1)])
def test_a_state_folder_that_cannot_be_used_is_said_with_the_way_out(
    tmp_path: Path, command: str, exit_code: int
) -> None:
    state = tmp_path / "state"
    state.write_text("a file", encoding="utf-8")

    done = egg_mcp(tmp_path, command, "--state-dir", str(state))

    assert done.returncode == exit_code
    said = done.stdout if command == "doctor" else done.stderr
    for phrase in (str(state), "--state-dir", "EGG_STATE_DIR"):
        assert phrase in said
    assert "Traceback" not in done.stderr
    if command != "doctor":
        assert done.stdout == ""


def test_a_setting_that_cannot_be_is_said_with_its_variable(tmp_path: Path) -> None:
    done = egg_mcp(tmp_path, "serve", "--state-dir", str(tmp_path), EGG_TRIAL_DEADLINE_S="soon")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "EGG_TRIAL_DEADLINE_S" in done.stderr
    assert "soon" in done.stderr
