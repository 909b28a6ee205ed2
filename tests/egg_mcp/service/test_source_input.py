from __future__ import annotations

from pathlib import Path

import pytest

from egg_mcp.errors import FileRefused, InvalidReference, InvalidSource
from egg_mcp.service.source_input import SourceInput, check_reference, source_input, title_of
from egg_mcp.settings import Settings

BODY = "class Model: ...\ndef get_inputs(): ...\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", workspace=tmp_path, max_source_bytes=1_000)


def test_nothing_given_is_no_source(settings: Settings) -> None:
    assert source_input("kernel", None, None, settings) is None


def test_code_is_taken_as_it_is_without_a_name(settings: Settings) -> None:
    code = "x = 'é'\r\n\t# \U0001f600\n"
    assert source_input("kernel", code, None, settings) == SourceInput(code, "")


def test_file_is_named_by_its_stem(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "rows.v2.py").write_text("x = 1", encoding="utf-8")
    expected = SourceInput("x = 1", "rows.v2")
    assert source_input("kernel", None, "rows.v2.py", settings) == expected
    assert source_input("kernel", None, str(tmp_path / "rows.v2.py"), settings) == expected


def test_limit_counts_utf8_bytes_to_the_last(settings: Settings) -> None:
    assert source_input("kernel", "é" * 500, None, settings)
    with pytest.raises(InvalidSource, match="is 1002 bytes; at most 1000"):
        source_input("kernel", "é" * 501, None, settings)


def test_surrogate_is_refused_with_its_line(settings: Settings) -> None:
    with pytest.raises(InvalidSource, match="not valid Unicode in line 3"):
        source_input("kernel", "a\nb\n\ud800", None, settings)


def test_link_inside_the_workspace_is_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1", encoding="utf-8")
    (tmp_path / "link.py").symlink_to("real.py")
    found = source_input("kernel", None, "link.py", settings)
    assert found == SourceInput("x = 1", "real")


def test_unreadable_file_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder", "missing.py", "folder/missing.py"):
        with pytest.raises(FileRefused, match="is not a file"):
            source_input("kernel", None, name, settings)


@pytest.mark.parametrize(
    "source",
    [
        BODY,
        "from somewhere import Model, get_inputs",
        "from somewhere import Net as Model\nget_inputs = list",
        "if True:\n    class Model: ...\nasync def get_inputs(): ...",
        "# coding: latin-1\n" + BODY,
    ],
)
def test_reference_may_bind_its_names_in_any_way(source: str) -> None:
    assert check_reference(source) == ""


def test_title_is_the_first_line_of_the_docstring() -> None:
    assert check_reference(f'"""Rows, summed.\n\nMore."""\n{BODY}') == "Rows, summed"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = Model, get_inputs", "'Model' and 'get_inputs'"),
        ("class Model: ...", "'get_inputs'"),
        ("class Model\n", "syntax error in line 1"),
        ("\n\n\tx = 1\n  y", "line"),
        ("a" + ".b" * 100_000, "reference"),
        ("x = " + "-" * 100_000 + "1", "reference"),
    ],
)
def test_reference_out_of_form_is_refused(source: str, words: str) -> None:
    with pytest.raises(InvalidReference, match=words):
        check_reference(source)


def test_odd_escape_in_a_string_is_the_users_own() -> None:
    assert check_reference(BODY + "x = '\\d'\n") == ""


def test_title_falls_back_to_the_file_and_then_to_model() -> None:
    assert title_of(SourceInput(BODY, "rows")) == "rows"
    assert title_of(SourceInput(BODY, "")) == "Model"


def test_title_is_one_short_printable_line() -> None:
    odd = f'"""a\\rb\\x00c\\ud800d\\u2028e {"long " * 100}"""\n{BODY}'
    title = title_of(SourceInput(odd, ""))
    assert title.startswith("a b c d e long")
    assert len(title) == 120
    assert title.isprintable()
    assert title_of(SourceInput(f'"""\\x00"""\n{BODY}', "\n")) == "Model"
