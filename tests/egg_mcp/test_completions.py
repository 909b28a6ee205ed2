from __future__ import annotations

from pathlib import Path

import pytest
from mcp.types import PromptReference, ResourceTemplateReference

from egg_mcp.vocabulary.stage import Stage
from tests.tools.desk import Desk, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio


async def _values(
    desk: Desk, template: str, name: str, typed: str = "", known: dict[str, str] | None = None
) -> list[str]:
    result = await desk.client.complete(
        ResourceTemplateReference(type="ref/resource", uri=template),
        {"name": name, "value": typed},
        context_arguments=known,
    )
    return result.completion.values


@in_both_eras
async def test_stage_and_guideline_are_completed(era: Era, tmp_path: Path) -> None:
    template = "egg://guidelines/{stage}/{id}"
    async with open_desk(tmp_path, era) as desk:
        assert await _values(desk, template, "stage") == [stage.value for stage in Stage]
        assert await _values(desk, "egg://guidelines/{stage}", "stage", "tune_t") == ["tune_tiling"]
        pages = (await desk.call("get_guidelines", stage="tune_tiling"))["guidelines"]
        ids = await _values(desk, template, "id", known={"stage": "tune_tiling"})
        assert ids == [page["id"] for page in pages]
        assert await _values(desk, template, "id", ids[0]) == [ids[0]]
        assert set(ids) < set(await _values(desk, template, "id"))


@in_both_eras
async def test_session_and_candidate_are_completed(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        first = await desk.open()
        second = await desk.open(new_session=True)
        for number in range(11):
            await desk.submit(first, kernel(mark=str(number)))
        session, numbered = "egg://sessions/{id}", "egg://sessions/{id}/candidates/{n}"
        assert set(await _values(desk, session, "id")) == {first, second}
        assert await _values(desk, session, "id", first[:20]) == [first]
        assert await _values(desk, numbered, "n", "1", {"id": first}) == ["1", "10", "11"]
        assert await _values(desk, numbered, "n", "", {"id": second}) == []
        asm = numbered + "/asm/{kind}"
        assert await _values(desk, asm, "kind", "p", {"id": first}) == ["ptx"]
        prompted = await desk.client.complete(
            PromptReference(type="ref/prompt", name="tiling_agent"),
            {"name": "session_id", "value": second},
        )
        assert prompted.completion.values == [second]


async def test_what_cannot_be_completed_gives_no_values(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert await _values(desk, "egg://jobs/{id}/log", "id") == []
        assert await _values(desk, "egg://sessions/{id}/candidates/{n}", "n") == []
        assert await _values(desk, "egg://guidelines/{stage}/{id}", "id", "", {"stage": "x"}) == []
