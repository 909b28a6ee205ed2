from __future__ import annotations

import random

import pytest

from egg_mcp.session.brief import (
    MOST_BYTES,
    GuidelineLine,
    StageBrief,
    build_brief,
    device_in_words,
    problem_in_words,
    shortened,
)
from egg_mcp.session.standing import Attempt, Standing
from egg_mcp.testing import FAKE_DEVICE, SOUND, failing, passing
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import ValueFacts
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import SUBMITTING_STAGES, Stage
from egg_mcp.vocabulary.verdict import Verdict, VerdictStatus

SESSION = SessionRecord(
    session_id="0" * 32,
    principal="local",
    problem_hash="1" * 64,
    title="Softmax over rows",
    precision=PrecisionPolicy.STRICT,
    created_at="2026-12-01T10:00:00.000+00:00",
    screening=SOUND,
)
GUIDELINES = tuple(
    GuidelineLine(id=f"page-{number}", title="A title " * 6, rule="A rule " * 35, why="family")
    for number in range(5)
)
EMULATED = DeviceFacts(kind="emulated", name="CPU", python="3.12", torch="2.11.0", triton="3.6.0")


def _attempt(number: int, stage: Stage, verdict: Verdict | None, rationale: str = "why") -> Attempt:
    return Attempt(
        Candidate(
            session_id=SESSION.session_id,
            number=number,
            stage=stage,
            kernel_hash="2" * 64,
            parent=number - 1 or None,
            rationale=rationale,
            guidelines_applied=(),
            created_at="now",
        ),
        verdict,
    )


def _brief(stage: Stage, *attempts: Attempt, device: DeviceFacts = FAKE_DEVICE) -> StageBrief:
    return build_brief(SESSION, stage, Standing(attempts), device, GUIDELINES)


def _long_session(seed: int, count: int = 200) -> tuple[Attempt, ...]:
    draw = random.Random(seed)  # noqa: S311 - the same sequences each time
    wide = ("words upon words ", "é\U0001f600漢字 ", '"\\\t" ')
    return tuple(
        _attempt(
            number,
            draw.choice(SUBMITTING_STAGES),
            passing(draw.uniform(0.5, 4.0))
            if draw.random() < 0.5
            else failing().model_copy(update={"likely_cause": draw.choice(wide) * 300}),
            draw.choice(wide) * 200,
        )
        for number in range(1, count + 1)
    )


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("seed", range(6))
def test_brief_of_a_long_session_is_bounded_and_still_says_what_matters(
    seed: int, stage: Stage
) -> None:
    attempts = _long_session(seed)
    brief = _brief(stage, *attempts)
    assert len(brief.model_dump_json().encode()) <= MOST_BYTES
    standing = Standing(attempts)
    assert [line.candidate for line in brief.champions] == [
        attempt.candidate.number for attempt in standing.champions
    ]
    assert len(brief.attempts) + brief.left_out == len(standing.of_stage(stage))
    if stage in SUBMITTING_STAGES:
        last = standing.of_stage(stage)[-1].candidate.number
        assert brief.attempts[-1].candidate == last
    assert len(brief.decided) == list(Stage).index(stage)
    assert brief.lessons
    assert brief.guidelines


@pytest.mark.parametrize("seed", range(3))
def test_same_session_gives_the_same_brief(seed: int) -> None:
    first = _brief(Stage.TUNE_TILING, *_long_session(seed))
    assert _brief(Stage.TUNE_TILING, *_long_session(seed)) == first


def test_brief_before_the_first_kernel_asks_for_one() -> None:
    brief = _brief(Stage.DESIGN_ALGORITHM)
    assert (brief.decided, brief.champions, brief.attempts, brief.lessons) == ((), (), (), ())
    assert brief.left_out == 0
    assert "parent=null" in brief.how_to_submit
    assert brief.guidelines == GUIDELINES
    assert "float32[64, 64]" in brief.problem
    assert "0.03277 MB" in brief.problem


def test_attempts_cross_a_stage_only_as_decisions_champions_and_lessons() -> None:
    design, tiling = Stage.DESIGN_ALGORITHM, Stage.TUNE_TILING
    brief = _brief(
        tiling,
        _attempt(1, design, passing(1.5), "one pass"),
        _attempt(2, design, failing(), "two\npasses"),
        _attempt(3, design, None, "not yet"),
        _attempt(4, tiling, passing(1.2), "wide blocks"),
        _attempt(5, tiling, failing(VerdictStatus.CRASHED), ""),
    )
    assert brief.decided == ("design_algorithm: candidate 1: one pass",)
    assert [line.candidate for line in brief.champions] == [1, 4]
    assert brief.lessons == ("candidate 2 (two passes): a missing mask",)
    assert [(line.candidate, line.change, line.verdict) for line in brief.attempts] == [
        (4, "wide blocks", "pass"),
        (5, "no rationale given", "crashed"),
    ]
    assert "parent=1" in brief.how_to_submit


def test_decision_is_the_best_of_its_stage_not_the_last() -> None:
    design = Stage.DESIGN_ALGORITHM
    attempts = (
        _attempt(1, design, passing(3.0), "best"),
        _attempt(2, design, passing(1.0), "last"),
    )
    assert _brief(Stage.TUNE_TILING, *attempts).decided == ("design_algorithm: candidate 1: best",)


def test_last_stage_is_submitted_to_without_code() -> None:
    brief = _brief(Stage.VERIFY_AND_BENCHMARK)
    assert brief.how_to_submit == f'Call verify_and_benchmark(session_id="{SESSION.session_id}").'


def test_brief_without_a_gpu_says_that_no_speed_is_measured() -> None:
    brief = _brief(Stage.DESIGN_ALGORITHM, device=EMULATED)
    assert "no GPU here" in brief.device
    assert "emulated_pass" in brief.device
    bare = FAKE_DEVICE.model_copy(
        update={"l2_bytes": None, "shared_memory_per_block_bytes": None, "arch": None}
    )
    assert "Fake GPU" in device_in_words(bare)


def test_problem_in_words_holds_what_is_known() -> None:
    assert problem_in_words("T", None) == "T (the reference has not been run yet)"
    many = SOUND.model_copy(
        update={
            "inputs": (ValueFacts(name="inputs[0]", kind="int"),) * 30,
            "parameter_count": 7,
            "flops": None,
        }
    )
    text = problem_in_words("T", many)
    assert text.count("int") == 6 + "inputs".count("int")
    assert "7 parameters" in text
    assert "GFLOP" not in text


def test_text_is_shortened_at_its_limit_exactly() -> None:
    assert shortened("a" * 5, 5) == "a" * 5
    assert shortened("a" * 6, 5) == "a" * 4 + "…"
    assert shortened(" \n ", 5) == ""
