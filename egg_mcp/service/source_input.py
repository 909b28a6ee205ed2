"""Sources as they come in: text or a file of the workspace, checked before anything is stored."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path

from egg_mcp.errors import FileRefused, InvalidReference, InvalidSource
from egg_mcp.settings import Settings

SURROGATE_STAND_IN = "\uffff"
"""What the stdio transport puts in the place of a lone surrogate, which no JSON reader takes."""

_MOST_TITLE = 120

_FORM = (
    "KernelBench form: `class Model(nn.Module)`, `get_inputs()` that returns forward's arguments "
    "as a list and, when the constructor has arguments, `get_init_inputs()`"
)


@dataclass(frozen=True, slots=True)
class SourceInput:
    """A checked source and what to call it."""

    text: str
    name: str


def source_input(
    what: str, code: str | None, file: str | None, settings: Settings
) -> SourceInput | None:
    """The source that a tool's `<what>_code` or `<what>_file` names; None when neither is given.

    Args:
        what: `reference` or `kernel`.
        code: source text.
        file: path inside the workspace, absolute or relative to it.
        settings: workspace, transport and the size limit.

    Raises:
        InvalidSource: both given, empty, too large, NUL bytes, or not valid Unicode.
        FileRefused: a file that may not or cannot be read.
    """
    if code is not None and file is not None:
        raise InvalidSource(f"give {what}_code or {what}_file, not both")
    if file is not None:
        path = workspace_path(f"{what}_file", file, settings)
        return SourceInput(_checked(_read(path, settings), f"{what}_file", settings), path.stem)
    if code is not None:
        return SourceInput(_checked(code, f"{what}_code", settings), "")
    return None


def workspace_path(argument: str, file: str, settings: Settings) -> Path:
    """The path that this argument names, resolved; inside the workspace, or refused.

    Raises:
        FileRefused: over HTTP, outside the workspace, or a link out of it.
    """
    if settings.transport == "http":
        raise FileRefused(
            f"{argument} is not available over HTTP: this server may be another machine than "
            "yours. Send the text itself."
        )
    if "\0" in file or SURROGATE_STAND_IN in file:
        raise FileRefused(f"{argument}={file!r} is not a file name")
    try:
        path = (settings.workspace / Path(file).expanduser()).resolve()
    except (OSError, RuntimeError) as error:
        raise FileRefused(f"{argument}={file!r} cannot be resolved: {error}") from error
    if not path.is_relative_to(settings.workspace):
        raise FileRefused(
            f"{argument}={file!r} leads to {str(path)!r}, outside the workspace "
            f"{str(settings.workspace)!r}. Move the file there, send its text, or start the "
            "server with --workspace."
        )
    return path


def title_of(reference: SourceInput) -> str:
    r"""What to call the reference, on one printable line: its docstring, else its file, else Model.

    Raises:
        InvalidReference: not in KernelBench form.

    >>> title_of(SourceInput('Model = get_inputs = None', "row\nsum"))
    'row sum'
    """
    title = check_reference(reference.text) or reference.name
    printable = "".join(char if char.isprintable() else " " for char in title)
    return " ".join(printable.split())[:_MOST_TITLE] or "Model"


def check_reference(source: str) -> str:
    """The reference's title, once it has what KernelBench form needs.

    Returns:
        The first line of the module's docstring, or nothing.

    Raises:
        InvalidReference: a syntax error, or no `Model` or `get_inputs`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in the user's strings is theirs
            tree = ast.parse(source)
    except SyntaxError as error:
        raise InvalidReference(
            f"the reference has a syntax error in line {error.lineno}: {error.msg}. "
            "Mend it and call design_algorithm again."
        ) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise InvalidReference(f"the reference cannot be parsed: {error}") from error
    bound = _bound_names(tree)
    missing = [name for name in ("Model", "get_inputs") if name not in bound]
    if missing:
        raise InvalidReference(
            f"the reference does not define {' and '.join(map(repr, missing))}. It must be in {_FORM}."
        )
    return (ast.get_docstring(tree) or "").strip().split("\n", 1)[0].rstrip(".")


def _bound_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names


def _checked(text: str, argument: str, settings: Settings) -> str:
    if not text.strip():
        raise InvalidSource(f"{argument} is empty; send Python source")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidSource(
            f"{argument} holds a NUL byte in line {line}, which no Python source may; remove it"
        )
    try:
        size_bytes = len(text.encode("utf-8"))
        at = text.find(SURROGATE_STAND_IN)
    except UnicodeEncodeError as error:
        size_bytes, at = 0, error.start
    if at >= 0:
        line = text[:at].count("\n") + 1
        raise InvalidSource(
            f"{argument} is not valid Unicode in line {line} (a lone surrogate): send UTF-8 text"
        )
    if size_bytes > settings.max_source_bytes:
        raise InvalidSource(
            f"{argument} is {size_bytes} bytes; at most {settings.max_source_bytes} are taken "
            "(EGG_MAX_SOURCE_BYTES). Data does not belong into source: build it in get_inputs()."
        )
    return text


def _read(path: Path, settings: Settings) -> str:
    try:
        if not path.is_file():
            raise FileRefused(
                f"{str(path)!r} is not a file; name one inside the workspace "
                f"{str(settings.workspace)!r}, or send the text itself"
            )
        with path.open("rb") as file:
            data = file.read(settings.max_source_bytes + 1)
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise FileRefused(f"{str(path)!r} cannot be read: {error.strerror}") from error
