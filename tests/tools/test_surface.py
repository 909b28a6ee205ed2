"""The surface that clients see, against the copy in `surface.json`.

A change here is a change of the product's contract. When it is meant:

    EGG_UPDATE_SNAPSHOT=1 .venv/bin/python -m pytest tests/tools/test_surface.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tools.desk import TOOLS, Desk, Era, in_both_eras, open_desk

pytestmark = pytest.mark.anyio

SNAPSHOT = Path(__file__).with_name("surface.json")
README = Path(__file__).parents[2] / "README.md"


async def _surface(desk: Desk) -> dict[str, Any]:
    client = desk.client
    tools = (await client.list_tools()).tools
    resources = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    prompts = (await client.list_prompts()).prompts
    return {
        "tools": [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "annotations": tool.annotations and tool.annotations.model_dump(exclude_none=True),
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
            }
            for tool in tools
        ],
        "resources": [
            {"uri": one.uri, "mime_type": one.mime_type, "title": one.title} for one in resources
        ],
        "templates": [
            {"uri": one.uri_template, "mime_type": one.mime_type, "title": one.title}
            for one in templates
        ],
        "prompts": [
            {
                "name": one.name,
                "title": one.title,
                "description": one.description,
                "arguments": [argument.model_dump() for argument in one.arguments or ()],
            }
            for one in prompts
        ],
    }


@in_both_eras
async def test_surface_is_the_one_in_the_snapshot(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        surface = json.loads(json.dumps(await _surface(desk)))
    if os.environ.get("EGG_UPDATE_SNAPSHOT"):
        text = json.dumps(surface, indent=1, sort_keys=True, ensure_ascii=False)
        SNAPSHOT.write_text(text + "\n", encoding="utf-8")
    known = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    for kind in known:
        assert surface[kind] == known[kind], f"{kind} changed; see this module's docstring"
    assert set(surface) == set(known)


@pytest.mark.parametrize("tool", TOOLS)
def test_readme_names_the_tool(tool: str) -> None:
    assert f"`{tool}`" in README.read_text(encoding="utf-8")


async def test_instructions_name_the_order_of_the_stages(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        instructions = desk.client.instructions or ""
    places = [instructions.find(tool) for tool in (*TOOLS[:5], "export_kernel")]
    assert -1 not in places
    assert places == sorted(places)
