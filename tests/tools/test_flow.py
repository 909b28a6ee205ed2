"""Sessions and stages as a client walks through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from egg_mcp.testing import FakeExecutor, by_marker, failing
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.verdict import Rigor, Verdict, VerdictStatus
from tests.tools.desk import REFERENCE, TOOLS, TUNING, Era, call_in, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio


def _wrong_at_final(source: str, rigor: Rigor) -> Verdict:
    """`FLAKY` kernels pass at quick rigor and fail at final."""
    if rigor is Rigor.FINAL and "FLAKY" in source:
        return failing()
    return by_marker(source, rigor)


@in_both_eras
async def test_same_reference_finds_its_session_unless_a_new_one_is_asked_for(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        first = await desk.open()
        assert await desk.open() == first
        assert await desk.open(precision="tf32_ok") != first
        assert await desk.open(new_session=True) != first
        assert (await desk.call("session_status"))["total"] == 3


@in_both_eras
async def test_next_step_alone_leads_from_reference_to_export(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        report = await desk.call("design_algorithm", reference_code=REFERENCE)
        walked: list[str] = []
        speed = 1.0
        while not walked or walked[-1] != "export_kernel":
            speed += 0.5
            blanks = {"kernel_code": kernel(speed), "rationale": "why"}
            tool, arguments = call_in(report["next_step"], **blanks)
            report = await desk.call(tool, **arguments)
            walked.append(tool)
            assert len(walked) < 20
        assert list(dict.fromkeys(walked)) == [*TOOLS[:5], "export_kernel"]
        assert report["warnings"] == []
        assert report["candidate"] == 5


async def test_asking_a_stage_returns_its_brief_and_changes_nothing_twice(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5), rationale="one pass")
        for stage in TUNING:
            first = await desk.call(stage, session_id=session_id)
            assert first["status"] == "brief"
            assert first["stage"] == stage
            assert first["champion"] == 1
            assert first["brief"]["guidelines"]
            assert f'{stage}(session_id="{session_id}"' in first["brief"]["how_to_submit"]
            assert await desk.call(stage, session_id=session_id) == first
        status = await desk.call("session_status", session_id=session_id)
        entered = [entry["stage"] for entry in status["stages_entered"]]
        assert entered == ["design_algorithm", *TUNING]


@in_both_eras
async def test_only_a_correct_and_measurably_faster_kernel_becomes_champion(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        champions: list[int | None] = []
        for number, speed in enumerate((None, 1.5, 1.2, 1.51, 2.0, None)):
            done = await desk.submit(session_id, kernel(speed, f"k{number}"))
            assert done["candidate"] == number + 1
            champions.append(done["champion"])
        assert champions == [None, 2, 2, 2, 5, 5]
        wrong = await desk.submit(session_id, kernel(mark="k0"))
        assert wrong["verdict"]["status"] == "wrong"
        assert wrong["verdict"]["likely_cause"] == "a missing mask"
        # Mended from the kernel that failed: the champion may have another structure.
        assert "parent=1" in wrong["next_step"]


async def test_pool_hands_three_champions_to_the_next_stage(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        for speed in (1.1, 3.0, 2.0, None, 1.5):
            await desk.submit(session_id, kernel(speed))
        brief = (await desk.call("tune_tiling", session_id=session_id))["brief"]
        assert [line["candidate"] for line in brief["champions"]] == [2, 3, 5]


@in_both_eras
async def test_same_kernel_is_judged_once_in_a_session(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        first = await desk.submit(session_id, kernel(1.5))
        again = await desk.submit(session_id, kernel(1.5), rationale="another reason")
        assert (again["job_id"], again["candidate"]) == (first["job_id"], 1)
        assert len(desk.executor.evaluations) == 1
        other = await desk.open(precision="lowp_ok")
        assert (await desk.submit(other, kernel(1.5)))["job_id"] != first["job_id"]


async def test_known_kernel_handed_in_later_does_not_lead_back_to_an_earlier_stage(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        await desk.submit(session_id, kernel(1.2))
        for stage in ("tune_tiling", "optimize_memory"):
            again = await desk.call(stage, session_id=session_id, kernel_code=kernel(1.2))
            tool, arguments = call_in(again["next_step"], kernel_code=kernel(1.6, stage))
            await desk.call(tool, **arguments)


async def test_stage_out_of_order_is_refused_with_the_missing_call(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel())
        missing = f'design_algorithm(session_id="{session_id}", kernel_code=...)'
        for tool in (*TUNING, "verify_and_benchmark"):
            refusal = await desk.refused(tool, session_id=session_id)
            assert missing in refusal
            assert tool in refusal
        assert missing in await desk.refused("export_kernel", session_id=session_id)
        status = await desk.call("session_status", session_id=session_id)
        assert status["stage"] == "design_algorithm"


async def test_stage_waits_for_the_reference(tmp_path: Path) -> None:
    class SlowReference(FakeExecutor):
        async def screen(self, problem: Any, report: Any) -> Screening:
            await self.released.wait()
            return await super().screen(problem, report)

    async with open_desk(tmp_path, executor=SlowReference()) as desk:
        opened = await desk.call("design_algorithm", reference_code=REFERENCE, wait_s=0)
        assert opened["status"] == "running"
        session_id = opened["session_id"]
        refusal = await desk.refused("design_algorithm", session_id=session_id)
        assert "has not been run yet" in refusal
        desk.executor.released.set()
        done = await desk.call("get_job", job_id=opened["job_id"])
        assert done["status"] == "done"
        assert done["brief"]["objective"]


async def test_refused_reference_says_why_and_takes_no_kernel(tmp_path: Path) -> None:
    constant = Screening(status="task_degenerate", explanation="outputs[0] is constant: 0.0.")
    async with open_desk(tmp_path, executor=FakeExecutor(screening=constant)) as desk:
        opened = await desk.call("design_algorithm", reference_code=REFERENCE)
        assert "outputs[0] is constant" in opened["summary"]
        assert opened["screening"]["status"] == "task_degenerate"
        assert opened["brief"] is None
        refusal = await desk.refused(
            "design_algorithm", session_id=opened["session_id"], kernel_code=kernel(2.0)
        )
        assert "task_degenerate" in refusal
        assert "design_algorithm(reference_code=...)" in refusal
        again = await desk.call("design_algorithm", reference_code=REFERENCE)
        assert again["session_id"] != opened["session_id"]


@in_both_eras
async def test_going_back_needs_a_reason_which_is_recorded(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        await desk.call("optimize_memory", session_id=session_id)
        for reason in (None, "  "):
            refusal = await desk.refused("tune_tiling", session_id=session_id, reopen_reason=reason)
            assert "reopen_reason" in refusal
            assert "optimize_memory" in refusal
        await desk.call("tune_tiling", session_id=session_id, reopen_reason="spills found")
        status = await desk.call("session_status", session_id=session_id)
        assert status["stage"] == "tune_tiling"
        assert status["stages_entered"][-1]["reason"] == "spills found"


async def test_skipped_stages_are_named_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        jumped = await desk.call("optimize_memory", session_id=session_id)
        assert jumped["warnings"] == ["skipped on the way here: tune_parallel_mapping, tune_tiling"]
        assert (await desk.call("optimize_memory", session_id=session_id))["warnings"] == []


async def test_refused_call_does_not_enter_its_stage(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        refusal = await desk.refused(
            "tune_tiling", session_id=session_id, kernel_code=kernel(2.0), parent=9
        )
        assert "no candidate 9: it has 1 to 1" in refusal
        assert f'session_status(session_id="{session_id}")' in refusal
        status = await desk.call("session_status", session_id=session_id)
        assert (status["stage"], status["total"]) == ("design_algorithm", 1)


async def test_three_attempts_without_gain_suggest_the_next_stage(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(2.0))
        steps = [
            (await desk.submit(session_id, kernel(1.0 + number / 10)))["next_step"]
            for number in range(3)
        ]
        assert [step.split("(")[0] for step in steps] == [
            "design_algorithm",
            "design_algorithm",
            "tune_parallel_mapping",
        ]


async def test_final_judgement_takes_the_champion_or_the_named_candidate(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.2))
        await desk.submit(session_id, kernel(1.8))
        named = await desk.call("verify_and_benchmark", session_id=session_id, candidate=1)
        assert named["candidate"] == 1
        final = await desk.call("verify_and_benchmark", session_id=session_id)
        assert final["candidate"] == 2
        assert final["stage"] == "verify_and_benchmark"
        assert "1.8x vs eager" in final["summary"]
        assert final["next_step"].startswith(
            f'export_kernel(session_id="{session_id}", candidate=2)'
        )
        again = await desk.call("verify_and_benchmark", session_id=session_id)
        assert again["job_id"] == final["job_id"]
        quick = await desk.call("verify_and_benchmark", session_id=session_id, rigor="quick")
        assert quick["next_step"].startswith("verify_and_benchmark(")


@in_both_eras
async def test_wrong_final_verdict_takes_the_champion_out_of_the_pool(
    era: Era, tmp_path: Path
) -> None:
    async with open_desk(tmp_path, era, FakeExecutor(_wrong_at_final)) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        await desk.submit(session_id, kernel(2.5, "FLAKY"))
        final = await desk.call("verify_and_benchmark", session_id=session_id)
        assert final["verdict"]["status"] == "wrong"
        assert final["champion"] == 1
        tool, arguments = call_in(final["next_step"])
        second = await desk.call(tool, **arguments)
        assert (second["candidate"], second["verdict"]["status"]) == (1, "pass")


async def test_last_champion_found_wrong_leads_back_to_design(tmp_path: Path) -> None:
    async with open_desk(tmp_path, executor=FakeExecutor(_wrong_at_final)) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(2.5, "FLAKY"))
        final = await desk.call("verify_and_benchmark", session_id=session_id)
        assert final["champion"] is None
        tool, arguments = call_in(final["next_step"], kernel_code=kernel(1.5))
        assert tool == "design_algorithm"
        assert arguments["parent"] == 1
        assert (await desk.call(tool, **arguments))["champion"] == 2


async def test_failure_of_the_reference_is_not_held_against_the_champion(tmp_path: Path) -> None:
    def judge(source: str, rigor: Rigor) -> Verdict:
        if rigor is Rigor.FINAL:
            return failing(VerdictStatus.REFERENCE_FAILED)
        return by_marker(source, rigor)

    async with open_desk(tmp_path, executor=FakeExecutor(judge)) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        final = await desk.call("verify_and_benchmark", session_id=session_id)
        assert final["verdict"]["status"] == "reference_failed"
        assert final["champion"] == 1
        assert "not the candidate" in final["next_step"]
        again = await desk.call("verify_and_benchmark", session_id=session_id)
        assert again["job_id"] != final["job_id"]


@in_both_eras
async def test_kernel_is_judged_alone_without_a_session(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        given = {"reference_code": REFERENCE, "kernel_code": kernel(1.5)}
        alone = await desk.call("verify_and_benchmark", **given)
        assert (alone["session_id"], alone["candidate"]) == (None, None)
        assert alone["verdict"]["speedup_vs_eager"] == 1.5
        assert alone["verdict"]["precision_policy"] == "strict"
        assert (await desk.call("verify_and_benchmark", **given))["job_id"] == alone["job_id"]
        loose = await desk.call("verify_and_benchmark", **given, precision="lowp_ok")
        assert loose["verdict"]["precision_policy"] == "lowp_ok"
        assert (await desk.call("session_status"))["total"] == 0
        wrong = await desk.call(
            "verify_and_benchmark", reference_code=REFERENCE, kernel_code=kernel()
        )
        assert wrong["next_step"].startswith("verify_and_benchmark(")


async def test_brief_tells_later_stages_what_was_decided_and_what_failed(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5), rationale="one pass over the row")
        await desk.submit(session_id, kernel(), rationale="two rows a program")
        brief = (await desk.call("tune_tiling", session_id=session_id))["brief"]
        assert brief["decided"] == ["design_algorithm: candidate 1: one pass over the row"]
        assert brief["lessons"] == ["candidate 2 (two rows a program): a missing mask"]
        assert brief["attempts"] == []
        used = brief["guidelines"][0]["id"]
        await desk.call(
            "tune_tiling",
            session_id=session_id,
            kernel_code=kernel(1.7),
            parent=1,
            guidelines_applied=[used],
        )
        attempts = (await desk.call("tune_tiling", session_id=session_id))["brief"]["attempts"]
        assert [(line["candidate"], line["parent"]) for line in attempts] == [(3, 1)]
