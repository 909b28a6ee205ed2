from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from egg_mcp.cli import main
from egg_mcp.errors import RequestError
from egg_mcp.settings import Settings, settings_from


def test_flag_beats_variable_and_variable_beats_default() -> None:
    environment = {"EGG_MAX_SOURCE_BYTES": "2000", "EGG_DEVICE": "emulated", "OTHER": "x"}
    settings = settings_from(environment, device="cuda", transport=None)
    assert settings.max_source_bytes == 2000
    assert settings.device == "cuda"
    assert settings.transport == "stdio"
    assert settings.trial_deadline_s == Settings().trial_deadline_s


def test_empty_variable_is_not_given() -> None:
    assert settings_from({"EGG_DEVICE": ""}).device == "auto"


def test_workspace_is_the_flag_else_the_variable_else_the_clients_folder_else_the_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = {"CLAUDE_PROJECT_DIR": str(tmp_path / "project")}
    both = {**project, "EGG_WORKSPACE": str(tmp_path / "variable")}
    assert settings_from(both, workspace="flag").workspace == tmp_path / "flag"
    assert settings_from(both).workspace == tmp_path / "variable"
    assert settings_from(project).workspace == tmp_path / "project"
    assert settings_from({}).workspace == tmp_path


def test_paths_become_absolute_and_links_of_the_workspace_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    settings = settings_from({}, workspace="link", state_dir="~/state", worker_python="bin/python")
    assert settings.workspace == tmp_path / "real"
    assert settings.state_dir == tmp_path / "state"
    assert settings.state_file == tmp_path / "state" / "egg.sqlite3"
    assert settings.worker_python == tmp_path / "bin" / "python"


def test_link_to_a_python_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert settings_from({}, worker_python=link).worker_python == link


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device", "tpu"),
        ("transport", "carrier pigeon"),
        ("max_source_bytes", "many"),
        ("max_source_bytes", "10"),
        ("trial_deadline_s", "0"),
        ("trial_deadline_s", "nan"),
        ("trial_deadline_s", "inf"),
        ("referee_idle_s", "-1"),
        ("max_output_bytes", "1"),
    ],
)
def test_bad_value_is_refused_naming_variable_and_flag(name: str, value: str) -> None:
    with pytest.raises(RequestError) as caught:
        settings_from({f"EGG_{name.upper()}": value})
    assert f"EGG_{name.upper()}" in str(caught.value)
    assert f"--{name.replace('_', '-')}" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_unknown_flag_is_refused() -> None:
    with pytest.raises(RequestError, match="work_space"):
        settings_from({}, work_space="x")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().device = "cuda"  # pyright: ignore[reportAttributeAccessIssue]


def test_every_setting_is_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out
    assert [
        name for name in Settings.model_fields if f"--{name.replace('_', '-')}" not in listed
    ] == []


def test_no_sandbox_is_refused_over_http() -> None:
    with pytest.raises(RequestError, match="stdio only"):
        settings_from({}, sandbox="off", transport="http")
    assert settings_from({}, sandbox="off").sandbox == "off"
