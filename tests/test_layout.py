"""The shape of the repository: links, packages, sizes and names."""

from __future__ import annotations

import ast
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]
MAPPED: dict[str, str] = {
    name: folder for name, folder in SETUPTOOLS["package-dir"].items() if "." in name
}
TOP_FOLDERS = ("egg_mcp", "tools", "sandbox", "expert_knowledge", "tests", "benchmarks", "examples")
IN_THE_FIELDS_OWN_DRESS = (ROOT / "egg_mcp" / "demo", ROOT / "tests" / "fixtures")
MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 60
SAYING_NOTHING = {"utils", "util", "helpers", "common", "misc", "base", "manager", "core"}


def _python_files(folder: Path) -> Iterator[Path]:
    """Every Python file below, without walking through a link."""
    for parent, _, names in os.walk(folder, followlinks=False):
        yield from (Path(parent, name) for name in names if name.endswith(".py"))


MODULES = sorted(
    file
    for folder in TOP_FOLDERS
    for file in _python_files(ROOT / folder)
    if not any(file.is_relative_to(dressed) for dressed in IN_THE_FIELDS_OWN_DRESS)
)


@pytest.mark.parametrize(("name", "folder"), list(MAPPED.items()))
def test_link_in_the_package_leads_to_the_mapped_folder(name: str, folder: str) -> None:
    link = ROOT.joinpath(*name.split("."))
    assert link.is_symlink()
    assert link.resolve() == ROOT / folder


def test_every_package_folder_is_listed_for_the_wheel() -> None:
    found: set[str] = set()
    for name, folder in {"egg_mcp": "egg_mcp", **MAPPED}.items():
        for file in _python_files(ROOT / folder):
            if file.name == "__init__.py":
                inside = file.parent.relative_to(ROOT / folder).parts
                found.add(".".join([name, *inside]))
    assert found == set(SETUPTOOLS["packages"])


def test_every_module_lies_in_a_listed_package() -> None:
    shipped = ("egg_mcp", *MAPPED.values())
    inside = [file for file in MODULES if file.relative_to(ROOT).parts[0] in shipped]
    assert [file for file in inside if not (file.parent / "__init__.py").is_file()] == []


def test_no_module_is_too_long() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in MODULES
    }
    assert {
        name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_MODULE
    } == {}


def _long_functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            # A tool's docstring is what its model reads: prose, not code.
            length -= len((ast.get_docstring(node, clean=False) or "").splitlines())
            if length > MOST_LINES_OF_A_FUNCTION:
                yield f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", length


def test_no_function_is_too_long() -> None:
    assert dict(found for file in MODULES for found in _long_functions(file)) == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [file for file in MODULES if file.stem.strip("_") in SAYING_NOTHING] == []
