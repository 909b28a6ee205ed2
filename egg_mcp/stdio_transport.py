"""The stdio transport, made to answer what the SDK would drop without a word.

The SDK (2.3) drops a line that is not JSON-RPC, so its sender waits for ever. Here such a line
gets an error reply, and a lone surrogate in a string, which the SDK's JSON reader refuses, is
replaced by a stand-in that the source check recognises and refuses with its line number.
"""

from __future__ import annotations

import json
import logging
import os
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

log = logging.getLogger(__name__)


async def serve_stdio(server: MCPServer[Egg]) -> None:
    """Serve one client over standard input and output until end of file.

    When the server fails, or nobody reads what it says, the process ends at once: an orderly end
    would wait for the client's next line, which may never come.
    """
    async with stdio_server() as (read_stream, write_stream):
        try:
            await _serve(server, read_stream, write_stream)
        except anyio.get_cancelled_exc_class():
            log.warning("standard output is closed, so nobody reads the answers: ending")
            os._exit(1)
        except Exception:
            log.exception("the server failed: ending")
            os._exit(1)


async def _serve(server: MCPServer[Egg], read_stream: Any, write_stream: Any) -> None:
    lowlevel = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    mended_writer, mended = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def mend() -> None:
        async with mended_writer, read_stream:
            async for item in read_stream:
                if isinstance(item, Exception):
                    await _answer(item, mended_writer, write_stream)
                else:
                    await mended_writer.send(item)

    async with mended, anyio.create_task_group() as task_group:
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
    try:
        value = _without_surrogates(_value(error))
    except (ValueError, RecursionError):
        return _refusal(None, PARSE_ERROR, "this line is not JSON")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        request_id = value.get("id") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        known = request_id if isinstance(request_id, str | int) else None
        return _refusal(known, INVALID_REQUEST, "this line is JSON, but not a JSON-RPC 2.0 message")


def _value(error: Exception) -> Any:
    """What the line behind this error says. Raises ValueError or RecursionError: it is not JSON."""
    if not isinstance(error, ValidationError):
        return None
    for detail in error.errors(include_url=False):
        if detail["type"] == "json_invalid":
            return json.loads(detail["input"])
        # An error's input is the whole line's value only there; elsewhere it is one field's.
        at_the_top = len(detail["loc"]) < 2 or (
            detail["type"] == "missing" and len(detail["loc"]) == 2
        )
        if at_the_top:
            return detail["input"]
    return None


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
