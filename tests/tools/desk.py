"""A client at a server in the same process, and what tests of tools say to it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from mcp import Client
from mcp.types import TextContent

from egg_mcp.server import build_server
from egg_mcp.settings import Settings
from egg_mcp.testing import FakeExecutor

Era = Literal["auto", "legacy"]
"""How the client speaks: as of 2026-07-28, or with the handshake of the years before."""

ERAS: tuple[Era, ...] = ("auto", "legacy")
in_both_eras = pytest.mark.parametrize("era", ERAS)

TOOLS = (
    "design_algorithm",
    "tune_parallel_mapping",
    "tune_tiling",
    "optimize_memory",
    "verify_and_benchmark",
    "get_job",
    "cancel_job",
    "session_status",
    "get_guidelines",
    "export_kernel",
)
TUNING = ("tune_parallel_mapping", "tune_tiling", "optimize_memory")

REFERENCE = '''"""Softmax over rows."""

class Model:
    pass

def get_inputs():
    return []
'''


def kernel(speed: float | None = None, mark: str = "") -> str:
    """A source that the fake executor finds correct at that speed, or wrong without one."""
    said = f" SPEED={speed}" if speed is not None else ""
    return f"# {mark}{said}\nclass ModelNew:\n    pass\n"


@dataclass(frozen=True, slots=True)
class Desk:
    """One client and its server."""

    client: Client
    executor: FakeExecutor
    settings: Settings

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool returns; it must not be an error."""
        result = await self.client.call_tool(tool, arguments)
        text = cast("TextContent", result.content[0]).text
        assert not result.is_error, text
        assert result.structured_content is not None
        assert json.loads(text) == result.structured_content
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What the tool says against the call; it must be an error."""
        result = await self.client.call_tool(tool, arguments)
        text = cast("TextContent", result.content[0]).text
        assert result.is_error, text
        return text.removeprefix(f"Error executing tool {tool}: ")

    async def open(self, **arguments: Any) -> str:
        """A session's id."""
        given = {"reference_code": REFERENCE, **arguments}
        return str((await self.call("design_algorithm", **given))["session_id"])

    async def submit(self, session_id: str, source: str, **arguments: Any) -> dict[str, Any]:
        """What design_algorithm says about a kernel."""
        return await self.call(
            "design_algorithm", session_id=session_id, kernel_code=source, **arguments
        )

    async def champion(self, session_id: str) -> int | None:
        """The session's champion, by the list of sessions."""
        listed = await self.call("session_status")
        return next(
            line["champion"] for line in listed["sessions"] if line["session_id"] == session_id
        )

    async def read(self, uri: str) -> str:
        """A resource's text."""
        contents = (await self.client.read_resource(uri, cache_mode="bypass")).contents
        assert len(contents) == 1
        return str(getattr(contents[0], "text", ""))


@contextlib.asynccontextmanager
async def open_desk(
    folder: Path,
    era: Era = "auto",
    executor: FakeExecutor | None = None,
    **settings: Any,
) -> AsyncGenerator[Desk]:
    """A server with its state in that folder, and a client; ends both."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    known = Settings(state_dir=folder / "state", workspace=workspace, **settings)
    fake = executor or FakeExecutor()
    async with Client(build_server(known, lambda _: fake), mode=era) as client:
        yield Desk(client, fake, known)


def call_in(next_step: str, **blanks: Any) -> tuple[str, dict[str, Any]]:
    """The first call that a next_step spells out; its `<...>` filled from `blanks`."""
    found = re.search(rf"\b({'|'.join(TOOLS)})\(([^)]*)\)", next_step)
    assert found is not None, f"no call in {next_step!r}"
    arguments: dict[str, Any] = {}
    for name, text, number, blank in re.findall(
        r'(\w+)=(?:"([^"]*)"|(\d+)|(<[^>]*>|\.\.\.))', found[2]
    ):
        if blank:
            arguments[name] = blanks[name]
        else:
            arguments[name] = int(number) if number else text
    return found[1], arguments
