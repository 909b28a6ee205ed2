"""The tool `get_guidelines`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from egg_mcp.errors import RequestError, UnknownGuideline
from egg_mcp.expert_knowledge.guideline import Guideline
from egg_mcp.expert_knowledge.library import Library
from egg_mcp.service.guideline_page import conditions, page_text
from egg_mcp.tools.call import EggContext, ToolCall
from egg_mcp.tools.result import GuidelinePage, GuidelinesReport
from egg_mcp.vocabulary.stage import Stage

MOST_BODIES = 3
_MOST_LISTED = 50

OptionalStage = Annotated[Stage | None, Field(description="Only guidelines of this stage.")]
GuidelineId = Annotated[
    str | None, Field(description="One guideline in full, by its id.", max_length=100)
]
Query = Annotated[
    str | None,
    Field(description="Free words to search for, e.g. 'register spills'.", max_length=300),
]
OptionalSessionId = Annotated[
    str | None,
    Field(description="Rank for this session's Problem and device.", max_length=64),
]


async def get_guidelines(
    ctx: EggContext,
    stage: OptionalStage = None,
    guideline_id: GuidelineId = None,
    query: Query = None,
    session_id: OptionalSessionId = None,
) -> GuidelinesReport:
    """Read expert guidelines: rules for making GPU kernels faster and keeping them right.

    When: a brief named a guideline and you want the whole page with its example; or to look for
    advice on a symptom. Give guideline_id for one page, query to search, stage for a list,
    session_id (with stage) to have them ranked for that session's Problem.

    Needs: nothing.
    Returns: up to 3 whole pages, otherwise a list of ids and titles to choose from.
    Never: runs code.
    """
    call = ToolCall(ctx)
    library = call.egg.library
    if guideline_id is not None:
        found = (_by_id(library, stage, guideline_id),)
    elif query is not None:
        found = library.search(query, stage, MOST_BODIES)
    elif session_id is not None:
        found = await _ranked(call, stage, session_id)
    else:
        stages = (stage,) if stage else tuple(Stage)
        found = tuple(page for one in stages for page in library.of_stage(one))
    return _report(found)


def _by_id(library: Library, stage: Stage | None, guideline_id: str) -> Guideline:
    if stage is not None:
        return library.get(stage, guideline_id)
    for one in Stage:
        for page in library.of_stage(one):
            if page.id == guideline_id:
                return page
    raise UnknownGuideline(
        f"no guideline {guideline_id!r}; get_guidelines() lists them, "
        "get_guidelines(query=...) searches"
    )


async def _ranked(call: ToolCall, stage: Stage | None, session_id: str) -> tuple[Guideline, ...]:
    session = call.egg.session(session_id, call.principal)
    if session.screening is None:
        raise RequestError("the session's reference has not been run yet; wait for its job")
    device = await call.egg.device(session)
    chosen = call.egg.library.select(
        stage or session.stage,
        session.screening.families,
        device.arch if device else None,
        session.precision,
        limit=MOST_BODIES,
    )
    return tuple(one.guideline for one in chosen)


def _report(found: tuple[Guideline, ...]) -> GuidelinesReport:
    whole = len(found) <= MOST_BODIES
    pages = tuple(_page(guideline, whole=whole) for guideline in found[:_MOST_LISTED])
    if not pages:
        summary, step = "0 guidelines fit.", "get_guidelines() lists all of them."
    elif whole:
        titles = ", ".join(f"{page.id} ({page.title})" for page in pages)
        summary = f"{len(pages)} in full: {titles}."
        step = (
            f"{pages[0].stage.value}(session_id=..., kernel_code=..., guidelines_applied=[<ids>]): "
            "apply what fits."
        )
    else:
        summary = f"{len(found)} guidelines, listed without their text."
        step = "get_guidelines(guideline_id=...) for a whole page."
    return GuidelinesReport(summary=summary, next_step=step, guidelines=pages, total=len(found))


def _page(guideline: Guideline, *, whole: bool) -> GuidelinePage:
    return GuidelinePage(
        id=guideline.id,
        stage=guideline.stage,
        title=guideline.title,
        families=tuple(map(str, guideline.families)),
        archs=guideline.archs,
        preconditions=conditions(guideline) if whole else "",
        effect=guideline.effect if whole else "",
        body=page_text(guideline) if whole else "",
        sources=guideline.sources if whole else (),
    )
