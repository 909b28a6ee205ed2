"""What stands between a tool and the wire: nothing a tool does may end the server.

In the SDK (2.3) a lone surrogate in a result, a CancelledError raised by a tool's own code and a
SystemExit each end a stdio server; NaN in a result makes clients refuse all of it.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

from mcp.server.context import CallNext, ServerRequestContext
from pydantic import BaseModel

_MANUAL = "    For further information visit https://errors.pydantic.dev"


def clean(value: Any) -> Any:
    r"""The value with no lone surrogate, NaN or infinity in it, models turned into data.

    >>> clean({"a": [float("nan"), "\udcff", 1.5]})
    {'a': [None, '?', 1.5]}
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="python", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


async def guard(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
    """Middleware around every request."""
    task = asyncio.current_task()
    try:
        result = clean(await call_next(ctx))
        return _without_links(result) if ctx.method == "tools/call" else result
    except SystemExit as error:
        if ctx.method != "tools/call":
            raise
        return _failed(f"The tool tried to end the server (exit {error.code}); it was kept alive.")
    except asyncio.CancelledError:
        is_ours = task is not None and task.cancelling() > 0
        if ctx.method != "tools/call" or is_ours:
            raise  # this request was cancelled, by its client or by the server's end
        return _failed("The work behind this call was cancelled. Make the same call again.")


def _without_links(result: Any) -> Any:
    """The result with the links into pydantic's manual taken out of its error: they help no model."""
    if not isinstance(result, dict):
        return result
    answer = cast("dict[str, Any]", result)
    for part in answer.get("content", ()) if answer.get("isError") else ():
        if "text" in part:
            lines = str(part["text"]).splitlines()
            part["text"] = "\n".join(line for line in lines if not line.startswith(_MANUAL))
    return answer


def _failed(text: str) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "resultType": "complete",
    }
