"""What an import may load: a client gives a server a few seconds to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOREIGN = ("tools", "sandbox", "expert_knowledge")


def _modules_after(statement: str, folder: Path) -> set[str]:
    """The modules loaded in a fresh interpreter that runs the statement in that folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{statement}; import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
    )
    return set(done.stdout.split())


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Path:
    """A project whose folders are named like ours; to import one of them is an error."""
    for name in FOREIGN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError(__name__)\n", "utf-8")
    return tmp_path


def test_starting_the_server_loads_no_torch_and_nothing_of_the_users(foreign_folder: Path) -> None:
    loaded = _modules_after("import egg_mcp.server", foreign_folder)
    assert loaded & {"torch", "triton", "numpy", *FOREIGN} == set()


def test_importing_the_package_loads_next_to_nothing(tmp_path: Path) -> None:
    loaded = _modules_after("import egg_mcp", tmp_path)
    ours = {name for name in loaded if name.partition(".")[0] == "egg_mcp"}
    assert len(ours) < 5
    assert loaded & {"mcp", "pydantic"} == set()
