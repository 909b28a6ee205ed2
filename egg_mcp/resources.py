"""The resources: the same facts as the tools give, by URI, for clients that read resources."""

from __future__ import annotations

import json
from collections.abc import Callable

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from egg_mcp.errors import EggError, RequestError
from egg_mcp.report import session_report
from egg_mcp.service import Egg
from egg_mcp.service.guideline_page import page_text
from egg_mcp.service.overview import session_line
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.vocabulary.stage import Stage

EggContext = Context[Egg]

_MARKDOWN = "text/markdown"
_JSON = "application/json"
_SESSIONS_LISTED = 100
_LOG_BYTES = 60_000
_MOST_DIGITS = 10


def register_resources(server: MCPServer[Egg], current: Callable[[], Egg]) -> None:
    """Add the resources and their templates to the server.

    All are async: the store belongs to the event loop's thread.

    Args:
        server: where to.
        current: the running application; the SDK gives resources without a variable no context.
    """

    @server.resource("egg://guidelines", mime_type=_MARKDOWN, title="All guidelines")
    async def guidelines() -> str:
        """All guidelines by stage, a line each."""
        return "\n".join(_stage_list(current(), stage) for stage in Stage)

    @server.resource("egg://sessions", mime_type=_JSON, title="Sessions")
    async def sessions() -> str:
        """The newest sessions."""
        egg = current()
        found = egg.store.sessions.list(LOCAL_PRINCIPAL, _SESSIONS_LISTED)
        lines = [session_line(egg, one).model_dump(mode="json") for one in found]
        return json.dumps(lines, indent=1)

    @server.resource("egg://device", mime_type=_JSON, title="What code runs on")
    async def device() -> str:
        """The device and the software that drives it; asks the worker side the first time."""
        found = await current().device()
        if found is None:
            raise ResourceNotFoundError("the worker side has not said yet; read again in a moment")
        return found.model_dump_json(indent=1)

    _register_templates(server)


def _register_templates(server: MCPServer[Egg]) -> None:
    server.resource("egg://guidelines/{stage}", mime_type=_MARKDOWN, title="A stage's guidelines")(
        stage_guidelines
    )
    server.resource("egg://guidelines/{stage}/{id}", mime_type=_MARKDOWN, title="A guideline")(
        guideline
    )
    server.resource("egg://sessions/{id}", mime_type=_JSON, title="A session's brief")(
        session_brief
    )
    server.resource("egg://sessions/{id}/report", mime_type=_MARKDOWN, title="A session's report")(
        report
    )
    server.resource(
        "egg://sessions/{id}/candidates/{n}", mime_type="text/x-python", title="A candidate's code"
    )(candidate_code)
    server.resource(
        "egg://sessions/{id}/candidates/{n}/verdict",
        mime_type=_JSON,
        title="A candidate's verdict, raw timing samples included",
    )(candidate_verdict)
    server.resource(
        "egg://sessions/{id}/candidates/{n}/asm/{kind}",
        mime_type="text/plain",
        title="What the compiler made of a candidate: ttir, ttgir, llir or ptx",
    )(candidate_asm)
    server.resource("egg://jobs/{id}/log", mime_type="text/plain", title="A job's log")(job_log)


async def stage_guidelines(stage: str, ctx: EggContext) -> str:
    """The guidelines of one stage, a line each with its rule."""
    return _stage_list(_egg(ctx), _stage(stage), rules=True)


async def guideline(stage: str, id: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """One guideline in full."""
    try:
        return page_text(_egg(ctx).library.get(_stage(stage), id))
    except EggError as error:
        raise ResourceNotFoundError(str(error)) from error


async def session_brief(id: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """The brief of the session's current stage."""
    egg = _egg(ctx)
    try:
        session = egg.session(id, LOCAL_PRINCIPAL)
    except RequestError as error:
        raise ResourceNotFoundError(str(error)) from error
    brief = await egg.brief(session, session.stage)
    if brief is None:
        raise ResourceNotFoundError("the worker side has not said yet what it runs on; try again")
    return brief.model_dump_json(indent=1)


async def report(id: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """The session's report for people."""
    egg = _egg(ctx)
    try:
        session = egg.session(id, LOCAL_PRINCIPAL)
    except RequestError as error:
        raise ResourceNotFoundError(str(error)) from error
    standing = egg.standing(id)
    champion = standing.champion
    source = egg.store.candidates.source_of(champion.candidate) if champion else None
    return session_report(session, standing, source)


async def candidate_code(id: str, n: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """The source that was handed in."""
    egg, number = _candidate(ctx, id, n)
    return egg.store.candidates.source_of(egg.docket.candidate(id, number))


async def candidate_verdict(id: str, n: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """The last verdict, whole."""
    egg, number = _candidate(ctx, id, n)
    verdict = egg.store.verdicts.latest(id, number, samples=True)
    if verdict is None:
        raise ResourceNotFoundError(f"candidate {number} has no verdict yet")
    return verdict.model_dump_json(indent=1)


async def candidate_asm(id: str, n: str, kind: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """What the compiler made of the candidate, kept when it passed on a GPU."""
    egg, number = _candidate(ctx, id, n)
    text = egg.store.artifacts.get(id, number, kind)
    if text is None:
        kinds = egg.store.artifacts.kinds(id, number)
        known = f"it has {', '.join(kinds)}" if kinds else "nothing was compiled (no GPU, no pass)"
        raise ResourceNotFoundError(f"candidate {number} has no {kind!r}: {known}")
    return text


async def job_log(id: str, ctx: EggContext) -> str:  # noqa: A002 - the URI's word
    """What the job said and what its candidate printed; the last part of a long one."""
    egg = _egg(ctx)
    try:
        egg.jobs.get(id, LOCAL_PRINCIPAL)
    except RequestError as error:
        raise ResourceNotFoundError(str(error)) from error
    page = egg.store.jobs.log(id, 0, _LOG_BYTES)
    more = "" if page.next_offset is None else "\n[the rest is left out]\n"
    return page.text + more


def _stage_list(egg: Egg, stage: Stage, *, rules: bool = False) -> str:
    lines = [f"# {stage.value}", ""]
    for page in egg.library.of_stage(stage):
        rule = f" {page.rule}" if rules else ""
        lines.append(f"* `egg://guidelines/{stage.value}/{page.id}` {page.title}.{rule}")
    return "\n".join([*lines, ""])


def _egg(ctx: EggContext) -> Egg:
    return ctx.request_context.lifespan_context


def _stage(name: str) -> Stage:
    try:
        return Stage(name)
    except ValueError as error:
        stages = ", ".join(stage.value for stage in Stage)
        raise ResourceNotFoundError(f"no stage {name!r}; there are {stages}") from error


def _candidate(ctx: EggContext, session_id: str, number: str) -> tuple[Egg, int]:
    egg = _egg(ctx)
    if not (number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS):
        raise ResourceNotFoundError(
            f"candidates have numbers, from 1 on; {number[:80]!r} is none of a candidate"
        )
    try:
        egg.session(session_id, LOCAL_PRINCIPAL)
        return egg, egg.docket.candidate(session_id, int(number)).number
    except RequestError as error:
        raise ResourceNotFoundError(str(error)) from error
