"""The stdio transport, made to answer what the SDK would drop without a word.

The SDK (2.3) drops a line that is not JSON-RPC, so its sender waits for ever. Here such a line
gets an error reply, and a lone surrogate in a string, which the SDK's JSON reader refuses, is
replaced by a stand-in that the source check recognises and refuses with its line number.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from egg_mcp.service import Egg
from egg_mcp.service.source_input import SURROGATE_STAND_IN


async def serve_stdio(server: MCPServer[Egg]) -> None:
    """Serve one client over standard input and output until end of file."""
    lowlevel = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    async with stdio_server() as (read_stream, write_stream):
        mended_writer, mended = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def mend() -> None:
            async with mended_writer:
                async for item in read_stream:
                    if isinstance(item, Exception):
                        await _answer(item, mended_writer, write_stream)
                    else:
                        await mended_writer.send(item)

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(mend)
            await lowlevel.run(mended, write_stream, lowlevel.create_initialization_options())
            task_group.cancel_scope.cancel()


async def _answer(
    error: Exception,
    mended: MemoryObjectSendStream[SessionMessage | Exception],
    replies: Any,
) -> None:
    """Mend the line behind this error and pass it on, or tell its sender what is wrong."""
    message = _mended(error)
    if isinstance(message, JSONRPCError):
        await replies.send(SessionMessage(message))
    else:
        await mended.send(SessionMessage(message))


def _mended(error: Exception) -> Any:
    line = _line(error)
    try:
        value = _without_surrogates(json.loads(line))
    except (ValueError, RecursionError):
        return _refusal(None, PARSE_ERROR, "this line is not JSON")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        request_id = value.get("id") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        known = request_id if isinstance(request_id, str | int) else None
        return _refusal(known, INVALID_REQUEST, "this line is JSON, but not a JSON-RPC 2.0 message")


def _line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        for detail in error.errors(include_url=False):
            if isinstance(detail["input"], str):
                return detail["input"]
            return json.dumps(detail["input"])
    return ""


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(
            SURROGATE_STAND_IN if "\ud800" <= character <= "\udfff" else character
            for character in value
        )
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _refusal(request_id: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
