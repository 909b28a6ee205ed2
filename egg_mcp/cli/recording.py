"""Recording: the tool calls a client made, to be made again against any server."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from egg_mcp.errors import RequestError
from egg_mcp.vocabulary.record import Record

SESSION_PLACEHOLDER = "$session_id"


class Expectation(Record):
    """What a call must come to."""

    status: str | None = None
    """The report's status; None when it does not matter."""
    verdict: tuple[str, ...] = ()
    """Any of these verdicts; empty when it does not matter."""


class RecordedCall(Record):
    """One tool call."""

    tool: str
    """Its name."""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Its arguments; `$session_id` stands for the session that the first call opened."""
    expect: Expectation = Expectation()
    """What must come of it."""


class WithoutGpu(Record):
    """What to change where there is no GPU."""

    why: str = "sizes that the interpreter can bear"
    """Why these changes."""
    constants: dict[str, int | str] = Field(default_factory=dict[str, int | str])
    """Module-level constant -> its value, in reference and kernels: sizes that the interpreter can
    bear."""


class Recording(Record):
    """A recorded session. The files that it names lie beside it."""

    format: Literal["egg-replay/1"]
    """Version of this format."""
    title: str
    """What it shows."""
    without_gpu: WithoutGpu = WithoutGpu()
    """What changes without a GPU."""
    calls: tuple[RecordedCall, ...]
    """In order."""


def load_recording(file: Path) -> Recording:
    """The recording in that file.

    Raises:
        RequestError: it cannot be read, or is not in the format; the message says where.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{str(file)!r} cannot be read as a recording: {error}") from error
    try:
        return Recording.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise RequestError(
            f"{str(file)!r} is not a recording of format egg-replay/1: {place}: {first['msg']}"
        ) from error


def lay_out(recording: Recording, folder: Path, workspace: Path, *, has_gpu: bool) -> list[str]:
    """Copy the Python files beside the recording into a workspace.

    Returns:
        The constants that were changed because there is no GPU, as `NAME = value`.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    constants = {} if has_gpu else recording.without_gpu.constants
    changed: list[str] = []
    for source in sorted(folder.glob("*.py")):
        if not constants:
            shutil.copyfile(source, workspace / source.name)
            continue
        text = source.read_text(encoding="utf-8")
        for name, value in constants.items():
            text, count = re.subn(rf"(?m)^{re.escape(name)} = .*$", f"{name} = {value!r}", text)
            if count and f"{name} = {value!r}" not in changed:
                changed.append(f"{name} = {value!r}")
        (workspace / source.name).write_text(text, encoding="utf-8")
    return changed


def arguments_of(call: RecordedCall, session_id: str | None) -> dict[str, Any]:
    """The call's arguments with the session put in."""
    text = json.dumps(call.arguments)
    return json.loads(text.replace(json.dumps(SESSION_PLACEHOLDER), json.dumps(session_id)))
