"""Registers the ten tools; the one place where our errors become the protocol's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from egg_mcp.errors import EggError
from egg_mcp.service import Egg
from egg_mcp.tools.cancel_job import cancel_job
from egg_mcp.tools.design_algorithm import design_algorithm
from egg_mcp.tools.export_kernel import export_kernel
from egg_mcp.tools.get_guidelines import get_guidelines
from egg_mcp.tools.get_job import get_job
from egg_mcp.tools.optimize_memory import optimize_memory
from egg_mcp.tools.session_status import session_status
from egg_mcp.tools.tune_parallel_mapping import tune_parallel_mapping
from egg_mcp.tools.tune_tiling import tune_tiling
from egg_mcp.tools.verify_and_benchmark import verify_and_benchmark

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

# Runs code that the caller supplies, in a process of its own, on this machine.
_RUNS_CODE = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_WRITES_NEW = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_STOPS_WORK = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

TOOLS: tuple[tuple[Callable[..., Awaitable[Any]], str, ToolAnnotations], ...] = (
    (design_algorithm, "Design the algorithm (stage 1)", _RUNS_CODE),
    (tune_parallel_mapping, "Tune the parallel mapping (stage 2a)", _RUNS_CODE),
    (tune_tiling, "Tune the tiling (stage 2b)", _RUNS_CODE),
    (optimize_memory, "Optimize memory (stage 2c)", _RUNS_CODE),
    (verify_and_benchmark, "Verify and benchmark (stage 3)", _RUNS_CODE),
    (get_job, "Wait for a job", _READS),
    (cancel_job, "Cancel a job", _STOPS_WORK),
    (session_status, "Sessions and their trajectory", _READS),
    (get_guidelines, "Expert guidelines", _READS),
    (export_kernel, "Export a kernel as a module", _WRITES_NEW),
)


def register_tools(server: MCPServer[Egg]) -> None:
    """Add the tools to the server."""
    for function, title, hints in TOOLS:
        server.add_tool(
            with_tool_errors(function),
            title=title,
            description=inspect.getdoc(function),
            annotations=hints,
        )


def with_tool_errors(
    function: Callable[Arguments, Awaitable[Answer]],
) -> Callable[Arguments, Awaitable[Answer]]:
    """The function, with every error of ours as a ToolError: only those reach the model in words."""

    @functools.wraps(function)
    async def speaking(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        try:
            return await function(*args, **kwargs)
        except EggError as error:
            raise ToolError(str(error)) from error

    return speaking
