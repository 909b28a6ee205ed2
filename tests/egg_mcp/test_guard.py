"""Nothing a tool does may end the server: each is answered, and the next call works."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult, TextContent

from egg_mcp.guard import clean, guard
from tests.tools.desk import ERAS, Era

pytestmark = pytest.mark.anyio


def _server() -> MCPServer[Any]:
    server = MCPServer[Any]("hostile", middleware=[guard], log_level="CRITICAL")

    @server.tool()
    async def surrogate() -> TextContent:
        return TextContent.model_construct(type="text", text="half \ud800 of a pair")

    @server.tool()
    async def refuses_with_surrogate() -> str:
        raise ToolError("half \udfff of a pair")

    @server.tool()
    async def not_a_number() -> dict[str, float]:
        return {"value": math.nan, "other": -math.inf, "sound": 1.5}

    @server.tool()
    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    @server.tool()
    async def leaves() -> str:
        raise SystemExit(3)

    @server.tool()
    async def breaks() -> str:
        raise KeyError("secret")

    @server.tool()
    async def doubled(number: int) -> int:
        return 2 * number

    @server.tool()
    async def fine() -> str:
        return "fine"

    return server


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "words", "is_error"),
    [
        ("surrogate", "half ? of a pair", False),
        ("refuses_with_surrogate", "half ? of a pair", True),
        ("cancels_itself", "Make the same call again", True),
        ("leaves", "tried to end the server (exit 3)", True),
        ("breaks", "Error executing tool breaks", True),
    ],
)
async def test_hostile_tool_is_answered_and_the_server_lives(
    tool: str, words: str, is_error: bool, era: Era
) -> None:
    async with Client(_server(), mode=era) as client:
        result = await client.call_tool(tool, {})
        content = result.content[0]
        assert isinstance(content, TextContent)
        assert words in content.text
        assert "secret" not in content.text
        assert result.is_error is is_error
        after = await client.call_tool("fine", {})
        assert not after.is_error


@pytest.mark.parametrize("era", ERAS)
async def test_no_odd_number_reaches_the_wire(era: Era) -> None:
    async with Client(_server(), mode=era) as client:
        listed = (await client.list_tools()).tools
        assert "not_a_number" in {tool.name for tool in listed}
        # Past the client's check against the schema, which takes no null for a number.
        call = CallToolRequest(params=CallToolRequestParams(name="not_a_number", arguments={}))
        result = await client.session.send_request(call, CallToolResult)
    assert result.structured_content == {"value": None, "other": None, "sound": 1.5}


def test_clean_text_and_numbers_stay_as_they_are(tmp_path: Path) -> None:
    value = {"a": [1, 1.5, True, None, "é\U0001f600"], "b": {"c": (1, 2)}, "d": str(tmp_path)}
    assert clean(value) == {**value, "b": {"c": [1, 2]}}
    assert json.dumps(clean({"\ud800": math.inf}), allow_nan=False) == '{"?": null}'


@pytest.mark.parametrize("era", ERAS)
async def test_an_argument_error_names_the_argument_and_links_nowhere(era: Era) -> None:
    async with Client(_server(), mode=era) as client:
        result = await client.call_tool("doubled", {"number": "many"})

    assert result.is_error
    part = result.content[0]
    assert isinstance(part, TextContent)
    assert "number" in part.text
    assert "many" in part.text
    assert "http" not in part.text
