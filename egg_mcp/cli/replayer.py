"""Replayer: starts the real server over stdio and makes a recording's calls with the SDK's client."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import TextContent, TextResourceContents

from egg_mcp.cli.recording import RecordedCall, Recording, arguments_of, lay_out
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.device import DeviceFacts

Say = Callable[[str], None]

_WAIT_S = 45.0


@dataclass(slots=True)
class Step:
    """One call and what came of it."""

    tool: str
    candidate: int | None
    verdict: str
    speedup: float | None
    candidate_ms: float | None
    eager_ms: float | None
    seconds: float
    summary: str
    met: bool


@dataclass(slots=True)
class Replay:
    """A recording that was run."""

    title: str
    workspace: Path
    device: str = ""
    changed: list[str] = field(default_factory=list[str])
    session_id: str | None = None
    steps: list[Step] = field(default_factory=list[Step])
    files: list[Path] = field(default_factory=list[Path])

    @property
    def met(self) -> bool:
        """Whether every call came to what the recording expects."""
        return all(step.met for step in self.steps)


async def replay(
    recording: Recording, folder: Path, out: Path, settings: Settings, say: Say
) -> Replay:
    """Run every call in order; a call whose expectation fails does not stop the rest.

    Args:
        recording: what to do.
        folder: where its files lie.
        out: gets a workspace, the exported kernel and the report.
        settings: state folder, worker Python and device of the server to start.
        say: takes each line as it happens.
    """
    workspace = out / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    done = Replay(recording.title, workspace)
    async with _client(settings, workspace) as client:
        device = await _read(client, "egg://device")
        has_gpu = '"kind": "cuda"' in device
        done.device = _device_line(device)
        done.changed = lay_out(recording, folder, workspace, has_gpu=has_gpu)
        say(f"== {recording.title} ==")
        say(f"   on {done.device}")
        if done.changed:
            say(f"   no GPU, so for the interpreter: {', '.join(done.changed)}")
        for call in recording.calls:
            step = await _make(client, call, done)
            done.steps.append(step)
            say(_line(step))
        if done.session_id is not None:
            report = out / "report.md"
            text = await _read(client, f"egg://sessions/{done.session_id}/report")
            report.write_text(text, encoding="utf-8")
            done.files.append(report)
    return done


@asynccontextmanager
async def _client(settings: Settings, workspace: Path) -> AsyncGenerator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-P", "-m", "egg_mcp"),
            *("--state-dir", str(settings.state_dir)),
            *("--workspace", str(workspace)),
            *("--worker-python", str(settings.worker_python)),
            *("--device", settings.device),
        ],
        # The SDK's client passes on six variables; CUDA and EGG_* ones must arrive, too.
        env=dict(os.environ),
    )
    async with Client(parameters) as client:
        yield client


async def _make(client: Client, call: RecordedCall, done: Replay) -> Step:
    began = time.monotonic()
    arguments = arguments_of(call, done.session_id)
    if call.tool not in ("export_kernel", "get_guidelines", "session_status", "cancel_job"):
        arguments.setdefault("wait_s", _WAIT_S)
    result = await client.call_tool(call.tool, arguments)
    facts: dict[str, Any] = result.structured_content or {}
    while facts.get("status") == "running" and facts.get("job_id"):
        result = await client.call_tool("get_job", {"job_id": facts["job_id"], "wait_s": _WAIT_S})
        facts = result.structured_content or {}
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    if result.is_error:
        facts = {"summary": text, "status": "error"}
    if done.session_id is None and facts.get("session_id"):
        done.session_id = facts["session_id"]
    if call.tool == "export_kernel" and facts.get("code"):
        exported = done.workspace.parent / "exported_kernel.py"
        exported.write_text(facts["code"], encoding="utf-8")
        done.files.append(exported)
    return _step(call, facts, time.monotonic() - began)


def _step(call: RecordedCall, facts: dict[str, Any], seconds: float) -> Step:
    verdict: dict[str, Any] = facts.get("verdict") or {}
    status = str(facts.get("status", "done"))
    word = str(verdict.get("status", "")) if call.tool != "export_kernel" else ""
    expected = call.expect
    met = status not in ("error", "failed", "interrupted", "cancelled")
    met = met and (expected.status is None or expected.status == status)
    met = met and (not expected.verdict or word in expected.verdict)
    return Step(
        tool=call.tool,
        candidate=facts.get("candidate"),
        verdict=word or ("brief" if status == "brief" else status),
        speedup=verdict.get("speedup_vs_eager"),
        candidate_ms=verdict.get("candidate_ms"),
        eager_ms=verdict.get("eager_ms"),
        seconds=seconds,
        summary=str(facts.get("summary", "")),
        met=met,
    )


async def _read(client: Client, uri: str) -> str:
    contents = (await client.read_resource(uri)).contents
    return "".join(part.text for part in contents if isinstance(part, TextResourceContents))


def _device_line(device: str) -> str:
    facts = DeviceFacts.model_validate_json(device)
    driver = f", CUDA {facts.driver}" if facts.driver else ""
    return (
        f"{facts.name}, Python {facts.python}, torch {facts.torch}, triton {facts.triton}{driver}"
    )


def _line(step: Step) -> str:
    number = f"#{step.candidate}" if step.candidate else "  "
    speed = f"{step.speedup:6.2f}x vs eager" if step.speedup else " " * 15
    mark = "" if step.met else "   <-- not what the recording expects: " + step.summary[:300]
    return f"   {step.tool:<22} {number:<3} {step.verdict:<14} {speed} {step.seconds:6.1f} s{mark}"
