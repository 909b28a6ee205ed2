"""What holds for every tool: one contract, ten tools, both eras of the protocol."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from mcp.types import TextContent, Tool

from egg_mcp.sandbox.sample_statistics import LEAST_EFFECT
from egg_mcp.testing import FakeExecutor, passing
from egg_mcp.vocabulary.verdict import Mismatch, Rigor, Trial, Verdict
from tests.tools.desk import TOOLS, TUNING, Desk, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio

FIRST_FIELDS = ["summary", "next_step", "session_id", "stage", "warnings"]
MOST_BYTES = 20_000
MOST_DESCRIPTION_BYTES = 2_048

Arguments = Callable[[Desk, str], Awaitable[dict[str, Any]]]


async def _design(_: Desk, session_id: str) -> dict[str, Any]:
    return {"session_id": session_id, "kernel_code": kernel(2.0), "detail": "full"}


async def _tuning(_: Desk, session_id: str) -> dict[str, Any]:
    return {"session_id": session_id}


async def _verify(_: Desk, session_id: str) -> dict[str, Any]:
    return {"session_id": session_id, "detail": "full"}


async def _finished_job(desk: Desk, session_id: str) -> dict[str, Any]:
    done = await desk.submit(session_id, kernel(1.5, "another"))
    return {"job_id": done["job_id"]}


async def _running_job(desk: Desk, session_id: str) -> dict[str, Any]:
    running = await desk.submit(session_id, kernel(1.5, "WAIT"), wait_s=0)
    return {"job_id": running["job_id"]}


async def _one_page(_: Desk, session_id: str) -> dict[str, Any]:
    return {"session_id": session_id, "stage": "tune_tiling"}


CALLS: dict[str, Arguments] = {
    "design_algorithm": _design,
    **dict.fromkeys(TUNING, _tuning),
    "verify_and_benchmark": _verify,
    "get_job": _finished_job,
    "cancel_job": _running_job,
    "session_status": _tuning,
    "get_guidelines": _one_page,
    "export_kernel": _tuning,
}

BAD_CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "design_algorithm": ({}, "give reference_code"),
    "tune_parallel_mapping": ({"session_id": "none"}, "session_status() lists"),
    "tune_tiling": ({"session_id": "none"}, "design_algorithm(reference_code=...) opens"),
    "optimize_memory": ({"session_id": "none"}, "session_status() lists"),
    "verify_and_benchmark": ({}, "give session_id"),
    "get_job": ({"job_id": "none"}, "session_status(session_id=...) lists"),
    "cancel_job": ({"job_id": "none"}, "the same submission again"),
    "session_status": ({"session_id": "none"}, "session_status() lists"),
    "get_guidelines": ({"guideline_id": "none"}, "get_guidelines(query=...) searches"),
    "export_kernel": ({"session_id": "none"}, "session_status() lists"),
}


def _no_constant(name: str) -> float:
    raise AssertionError(f"{name} on the wire")


async def _tools(desk: Desk) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await desk.client.list_tools()).tools}


@in_both_eras
@pytest.mark.parametrize("tool", TOOLS)
async def test_tool_keeps_the_contract(tool: str, era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.3))
        arguments = await CALLS[tool](desk, session_id)
        result = await desk.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        content = cast("dict[str, Any]", result.structured_content)
        text = cast("TextContent", result.content[0]).text
        assert list(content)[:5] == FIRST_FIELDS
        assert json.loads(text, parse_constant=_no_constant) == content
        assert len(text.encode()) < MOST_BYTES
        assert re.search(r"\d", content["summary"])
        assert re.search(rf"\b({'|'.join(TOOLS)})\(", content["next_step"])
        schema = (await _tools(desk))[tool].output_schema
        assert schema is not None
        jsonschema.validate(content, schema)


@in_both_eras
@pytest.mark.parametrize("tool", TOOLS)
async def test_bad_call_is_an_error_that_says_what_to_do(
    tool: str, era: Era, tmp_path: Path
) -> None:
    arguments, advice = BAD_CALLS[tool]
    async with open_desk(tmp_path, era) as desk:
        assert advice in await desk.refused(tool, **arguments)


@in_both_eras
async def test_there_are_ten_tools_and_each_is_described_in_full(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        tools = await _tools(desk)
    assert tuple(tools) == TOOLS
    for tool in tools.values():
        assert tool.description
        assert len(tool.description.encode()) <= MOST_DESCRIPTION_BYTES
        assert "Needs:" in tool.description
        assert "Returns:" in tool.description
        assert "Never:" in tool.description
        assert tool.title
        properties = cast("dict[str, dict[str, Any]]", tool.input_schema["properties"])
        undescribed = [name for name, one in properties.items() if not one.get("description")]
        assert undescribed == []
        assert "ctx" not in properties


async def test_annotations_say_who_reads_and_who_runs_code(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        tools = await _tools(desk)
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert all(hint is not None for hint in hints.values())
    reads = {name for name, hint in hints.items() if hint and hint.read_only_hint}
    assert reads == {"get_job", "session_status", "get_guidelines"}
    destroys = {name for name, hint in hints.items() if hint and hint.destructive_hint}
    assert destroys == {"cancel_job", *TOOLS[:5]}
    assert not any(hint and hint.open_world_hint for hint in hints.values())


def _hostile(_: str, rigor: Rigor) -> Verdict:
    """Correct, with every measured value and every text at its worst."""
    verdict = passing(2.0, rigor)
    assert verdict.timing is not None
    odd = verdict.timing.model_copy(update={"ci95_high": math.nan, "ci95_low": math.nan})
    mismatches = tuple(
        Mismatch(output="outputs[0]", what="off " * 200, got="nan", bad_share=math.nan)
        for _ in range(4)
    )
    trial = Trial(kind="given", seed=1, passed=False, error_ratio=math.nan, mismatches=mismatches)
    return verdict.model_copy(
        update={
            "timing": odd,
            "trials": (trial,) * 10,
            "explanation": "half a pair \ud800 " * 500,
            "likely_cause": "because \udfff",
            "output_tail": "x\udcff\x00" * 3_000,
            "torch_operators": {f"operator_{number}": number for number in range(50)},
            "launches": {f"kernel_{'k' * 180}_{number}": number for number in range(50)},
        }
    )


@in_both_eras
async def test_hostile_verdict_reaches_the_client_clean_and_bounded(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era, FakeExecutor(_hostile)) as desk:
        session_id = await desk.open()
        for detail in ("concise", "full"):
            result = await desk.client.call_tool(
                "design_algorithm",
                {"session_id": session_id, "kernel_code": kernel(2.0), "detail": detail},
            )
            text = cast("TextContent", result.content[0]).text
            assert not result.is_error, text
            assert json.loads(text, parse_constant=_no_constant) == result.structured_content
            assert len(text.encode("utf-8")) < MOST_BYTES
            schema = (await _tools(desk))["design_algorithm"].output_schema
            assert schema is not None
            jsonschema.validate(result.structured_content, schema)
        assert json.loads(await desk.read(f"egg://sessions/{session_id}/candidates/1/verdict"))


async def test_every_list_of_guidelines_stays_under_the_limit(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        listed = await desk.call("get_guidelines")
        assert len(listed["guidelines"]) == listed["total"]
        assert len(json.dumps(listed, indent=2).encode()) < MOST_BYTES
        for page in listed["guidelines"]:
            one = await desk.call("get_guidelines", guideline_id=page["id"])
            assert one["guidelines"][0]["body"]
        wide = await desk.call("get_guidelines", query="memory block load row")
        assert wide["total"] == 3
        assert len(json.dumps(wide, indent=2).encode()) < MOST_BYTES


async def test_status_of_a_long_session_comes_in_pages_under_the_limit(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        speed = 1.0
        for number in range(45):
            speed *= 1 + 2 * LEAST_EFFECT
            source = kernel(speed if number % 2 else None, str(number))
            await desk.submit(session_id, source, rationale="long " * 390)
        seen: list[int] = []
        offset: int | None = 0
        while offset is not None:
            page = await desk.call("session_status", session_id=session_id, offset=offset)
            assert len(json.dumps(page, indent=2).encode()) < MOST_BYTES
            assert len(page["jobs"]) <= 10
            seen += [line["candidate"] for line in page["candidates"]]
            offset = page["next_offset"]
        assert seen == list(range(1, 46))
        last = await desk.call("session_status", session_id=session_id)
        assert last["candidates"][-1]["candidate"] == 45
