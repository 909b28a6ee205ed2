from __future__ import annotations

import sys
from pathlib import Path

import pytest

from egg_mcp.sandbox.worker.readable_paths import readable_paths


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def test_python_and_the_worker_code_are_readable(home: Path) -> None:
    found = readable_paths()
    assert sys.prefix in found
    assert sys.base_prefix in found
    assert any(path.endswith("/sandbox") for path in found)
    assert all(Path(path).exists() for path in found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("wide", ["/", "/home", "/tmp", "/etc", "/opt", "/root/", "//", "/usr/.."])  # noqa: S108
def test_nothing_wide_is_opened_whatever_a_variable_says(
    home: Path, monkeypatch: pytest.MonkeyPatch, wide: str
) -> None:
    monkeypatch.setenv("PATH", f"{wide}:{home}:relative:")
    monkeypatch.setenv("CUDA_HOME", wide)
    monkeypatch.setattr(sys, "path", [wide, *sys.path])
    found = readable_paths()
    assert str(home) not in found
    assert not {"/", "/home", "/tmp", "/etc", "/opt", "/root"} & set(found)  # noqa: S108


def test_link_to_something_wide_is_not_opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = home / "everything"
    link.symlink_to("/")
    monkeypatch.setenv("CUDA_HOME", str(link))
    assert str(link) not in readable_paths()


def test_compiler_comes_with_what_is_installed_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = home / "tools" / "bin" / "gcc"
    gcc.parent.mkdir(parents=True)
    gcc.touch()
    monkeypatch.setenv("CC", str(gcc))
    assert {str(gcc), str(home / "tools")} <= set(readable_paths())


def test_tool_in_a_private_folder_of_the_home_opens_no_more_than_its_bin(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = home / ".local" / "bin" / "ptxas"
    tool.parent.mkdir(parents=True)
    tool.touch()
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    found = readable_paths()
    assert str(tool.parent) in found
    assert str(home / ".local") not in found
