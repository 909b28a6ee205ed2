"""The tool `export_kernel`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from egg_mcp import __version__
from egg_mcp.errors import FileRefused, StageOrderError
from egg_mcp.service.source_input import workspace_path
from egg_mcp.session.standing import Attempt
from egg_mcp.tools.arguments import Candidate, SessionId
from egg_mcp.tools.call import EggContext, ToolCall
from egg_mcp.tools.result import ExportReport
from egg_mcp.tools.verdict_view import timing_in_words, view_of
from egg_mcp.vocabulary.record import utc_now
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage

MOST_CODE_BYTES = 12_000
"""Longer code goes into a file, or is read as a resource."""

OutputFile = Annotated[
    str | None,
    Field(
        description=(
            "Write the module there, inside the workspace (stdio only). An existing file is left "
            "alone and refused."
        ),
        max_length=4096,
    ),
]


async def export_kernel(
    ctx: EggContext,
    session_id: SessionId,
    candidate: Candidate = None,
    output_file: OutputFile = None,
) -> ExportReport:
    """Get a candidate as a drop-in module: same constructor and state_dict as the reference's Model.

    When: after verify_and_benchmark, to put the kernel to use. The module says in its docstring
    what was verified, where and how fast; `Model` in it is the fast class.

    Needs: session_id; candidate defaults to the champion.
    Returns: the code, or the file it was written to. A candidate that is not correct is exported
    only when named by number, with a warning.
    Never: overwrites a file.
    """
    call = ToolCall(ctx)
    session = call.egg.session(session_id, call.principal)
    standing = call.egg.standing(session_id)
    if candidate is not None:
        call.egg.docket.candidate(session_id, candidate)
    attempt = standing.champion if candidate is None else standing.get(candidate)
    if attempt is None:
        raise StageOrderError(
            "there is no correct candidate to export yet. Next: "
            f'design_algorithm(session_id="{session_id}", kernel_code=...)'
        )
    code = drop_in_module(session, attempt, call.egg.store.candidates.source_of(attempt.candidate))
    written = (
        _write(workspace_path("output_file", output_file, call.egg.settings), code)
        if (output_file is not None)
        else None
    )
    return _report(session, attempt, code, written)


def drop_in_module(session: SessionRecord, attempt: Attempt, source: str) -> str:
    """The candidate's source under a docstring that says what is known about it."""
    verdict = attempt.verdict
    status = verdict.status.value if verdict else "not judged"
    facts = [f"Verdict: {status} under precision policy {session.precision.value}"]
    if verdict is not None:
        facts.append(f"Rigor: {verdict.rigor.value}; timing: {timing_in_words(verdict)}")
        if device := verdict.device:
            facts.append(f"Device: {device.name}, torch {device.torch}, triton {device.triton}")
    lines = (
        f"# {session.title}: kernel made and judged with EGG MCP {__version__}, {utc_now()[:10]}.",
        *(f"# {' '.join(fact.split())}." for fact in facts),
        (
            f"# Session {session.session_id}, candidate {attempt.candidate.number}, SHA-256 "
            f"{attempt.candidate.kernel_hash}."
        ),
        "# Verified for the shapes and dtypes of that session's get_inputs() only.",
    )
    return "\n".join((*lines, "", source.rstrip(), "", "", "Model = ModelNew", ""))


def _write(path: Path, code: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(code)
    except FileExistsError as error:
        raise FileRefused(
            f"{str(path)!r} exists and is never overwritten; name another output_file"
        ) from error
    except OSError as error:
        raise FileRefused(f"{str(path)!r} cannot be written: {error.strerror}") from error
    return path


def _then(session: SessionRecord, attempt: Attempt) -> str:
    """The call that follows, whatever becomes of the code."""
    call = f'(session_id="{session.session_id}"'
    if attempt.verdict is not None and attempt.verdict.rigor == "final":
        return f"session_status{call}) shows how it came about."
    return (
        f"Before you rely on it: verify_and_benchmark{call}, candidate={attempt.candidate.number})."
    )


def _report(
    session: SessionRecord, attempt: Attempt, code: str, written: Path | None
) -> ExportReport:
    number = attempt.candidate.number
    warnings: list[str] = []
    if not attempt.is_correct:
        warnings.append("this candidate is not known to be correct: do not use it as it is")
    elif attempt.verdict is not None and attempt.verdict.rigor != "final":
        warnings.append("judged at quick rigor only: verify_and_benchmark gives the final word")
    send = written is None and len(json.dumps(code, ensure_ascii=False).encode()) <= MOST_CODE_BYTES
    uri = f"egg://sessions/{session.session_id}/candidates/{number}"
    if not attempt.is_correct:
        use = "Do not use it as it is."
    elif written is not None:
        use = f"Import Model from {written.name} in the place of the reference's."
    elif send:
        use = "Save `code` as a module and import Model from it in the place of the reference's."
    else:
        use = f"Read {uri}, or call again with output_file: the code is too long to send here."
    return ExportReport(
        summary=f"Candidate {number} of {session.title} as a drop-in module, "
        f"{len(code.splitlines())} lines.",
        next_step=f"{use} {_then(session, attempt)}",
        session_id=session.session_id,
        stage=Stage.VERIFY_AND_BENCHMARK,
        warnings=tuple(warnings),
        candidate=number,
        code=code if send else None,
        file=str(written) if written else None,
        verdict=view_of(attempt.verdict) if attempt.verdict else None,
    )
