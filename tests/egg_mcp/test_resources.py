from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.testing import FakeExecutor, passing
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.stage import Stage
from tests.tools.desk import Desk, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio


class WithAsm(FakeExecutor):
    """Hands back what a GPU's worker does beside a verdict."""

    async def evaluate(self, *_: object, **__: object) -> Evaluation:
        return Evaluation(passing(1.5), "printed by the candidate", {"ptx": ".version 8.0"})


async def _not_found(desk: Desk, uri: str) -> str:
    with pytest.raises(MCPError) as caught:
        await desk.read(uri)
    assert caught.value.error.code == -32602
    return str(caught.value)


@in_both_eras
async def test_every_resource_is_filled_from_the_live_session(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era, WithAsm()) as desk:
        session_id = await desk.open()
        done = await desk.submit(session_id, kernel(1.5), rationale="one | pass")
        session = f"egg://sessions/{session_id}"

        listed = json.loads(await desk.read("egg://sessions"))
        assert [(line["session_id"], line["champion"]) for line in listed] == [(session_id, 1)]
        assert json.loads(await desk.read("egg://device"))["name"] == "Fake GPU"
        asked = await desk.call("design_algorithm", session_id=session_id)
        assert json.loads(await desk.read(session)) == asked["brief"]
        assert await desk.read(f"{session}/candidates/1") == kernel(1.5)
        verdict = json.loads(await desk.read(f"{session}/candidates/1/verdict"))
        assert verdict["timing"]["samples_ms"]["candidate"]
        assert await desk.read(f"{session}/candidates/1/asm/ptx") == ".version 8.0"
        assert "printed by the candidate" in await desk.read(f"egg://jobs/{done['job_id']}/log")
        report = await desk.read(f"{session}/report")
        assert "# Softmax over rows" in report
        assert "one \\| pass" in report
        assert kernel(1.5).strip() in report


@in_both_eras
async def test_resources_and_templates_are_those_of_the_design(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        resources = (await desk.client.list_resources()).resources
        templates = (await desk.client.list_resource_templates()).resource_templates
    assert {one.uri for one in resources} == {"egg://guidelines", "egg://sessions", "egg://device"}
    assert {one.uri_template for one in templates} == {
        "egg://guidelines/{stage}",
        "egg://guidelines/{stage}/{id}",
        "egg://sessions/{id}",
        "egg://sessions/{id}/report",
        "egg://sessions/{id}/candidates/{n}",
        "egg://sessions/{id}/candidates/{n}/verdict",
        "egg://sessions/{id}/candidates/{n}/asm/{kind}",
        "egg://jobs/{id}/log",
    }
    assert all(one.description and one.mime_type for one in (*resources, *templates))


async def test_guideline_reads_the_same_by_resource_and_by_tool(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        listing = await desk.read("egg://guidelines")
        for stage in Stage:
            pages = (await desk.call("get_guidelines", stage=stage.value))["guidelines"]
            of_stage = await desk.read(f"egg://guidelines/{stage.value}")
            assert pages
            for page in pages:
                uri = f"egg://guidelines/{stage.value}/{page['id']}"
                assert uri in listing
                assert uri in of_stage
                told = await desk.call("get_guidelines", guideline_id=page["id"])
                assert await desk.read(uri) == told["guidelines"][0]["body"]


@in_both_eras
async def test_unknown_resource_is_not_found_in_words(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        running = await desk.submit(session_id, kernel(1.5, "WAIT"), wait_s=0)
        candidates = f"egg://sessions/{session_id}/candidates"
        expected = {
            "egg://nothing": "egg://nothing",
            "egg://sessions/none": "session_status() lists the known ones",
            "egg://sessions/none/report": "no session 'none'",
            "egg://sessions/none/candidates/1": "no session 'none'",
            f"{candidates}/7": "no candidate 7: it has 1 to 1",
            f"{candidates}/x": "candidates have numbers",
            f"{candidates}/{'9' * 5_000}": "candidates have numbers",
            f"{candidates}/1/verdict": "has no verdict yet",
            f"{candidates}/1/asm/ptx": "nothing was compiled",
            "egg://jobs/none/log": "no job 'none'",
            "egg://guidelines/design": "there are design_algorithm, tune_parallel_mapping",
            "egg://guidelines/tune_tiling/none": "No guideline 'none'",
        }
        for uri, words in expected.items():
            assert words in await _not_found(desk, uri)
        await desk.call("cancel_job", job_id=running["job_id"])
        assert len(json.loads(await desk.read("egg://sessions"))) == 1


async def test_change_is_published_to_who_listens(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        verdict = f"egg://sessions/{session_id}/candidates/1/verdict"
        wanted = {verdict, f"egg://sessions/{session_id}/report", "egg://sessions"}
        async with desk.client.listen(resource_subscriptions=sorted(wanted)) as subscription:
            await desk.submit(session_id, kernel(1.5))
            seen: set[str] = set()
            with anyio.fail_after(20):
                async for event in subscription:
                    seen.add(str(getattr(event, "uri", "")))
                    if seen >= wanted:
                        break
        assert seen == wanted
        assert json.loads(await desk.read(verdict))["status"] == "pass"


@in_both_eras
async def test_text_with_half_a_surrogate_pair_from_a_worker_can_be_read(
    era: Era, tmp_path: Path
) -> None:
    class Odd(FakeExecutor):
        async def screen(self, *args: object, **kwargs: object) -> Screening:
            del args, kwargs
            return self._screening.model_copy(update={"explanation": "sound \ud800"})

        async def evaluate(self, *_: object, **__: object) -> Evaluation:
            verdict = passing(1.5).model_copy(update={"likely_cause": "odd \udcff"})
            return Evaluation(verdict, "printed \ud800", {"ptx": "asm \udfff"})

    async with open_desk(tmp_path, era, Odd()) as desk:
        session_id = await desk.open()
        done = await desk.submit(session_id, kernel(1.5))
        assert done["verdict"]["likely_cause"] == "odd ?"
        for uri in ("report", "candidates/1/verdict", "candidates/1/asm/ptx"):
            assert await desk.read(f"egg://sessions/{session_id}/{uri}")
        assert "printed ?" in await desk.read(f"egg://jobs/{done['job_id']}/log")
