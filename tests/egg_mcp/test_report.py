from __future__ import annotations

from egg_mcp.report import session_report
from egg_mcp.session.standing import Attempt, Standing
from egg_mcp.testing import SOUND, failing, passing
from egg_mcp.vocabulary.candidate import Candidate
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.session import SessionRecord, StageEntry
from egg_mcp.vocabulary.stage import Stage

SESSION = SessionRecord(
    session_id="abc",
    principal="local",
    problem_hash="1",
    title="Softmax",
    precision=PrecisionPolicy.TF32_OK,
    created_at="2026-12-01",
    screening=SOUND,
    stages_entered=(
        StageEntry(stage=Stage.TUNE_TILING, reason="found\n# spills", at="2026-12-02"),
    ),
)


def _candidate(number: int, rationale: str) -> Candidate:
    return Candidate(
        session_id="abc",
        number=number,
        stage=Stage.DESIGN_ALGORITHM,
        kernel_hash="2",
        parent=None,
        rationale=rationale,
        guidelines_applied=(),
        created_at="now",
    )


def test_report_holds_session_stages_trajectory_and_champion() -> None:
    standing = Standing(
        (
            Attempt(_candidate(1, "one | pass\nover"), passing(1.5)),
            Attempt(_candidate(2, ""), failing()),
            Attempt(_candidate(3, ""), None),
        )
    )
    lines = session_report(SESSION, standing, "x = '```'\n").splitlines()
    assert lines[0] == "# Softmax"
    assert "precision policy `tf32_ok`" in lines[2]
    assert "* 2026-12-02 tune_tiling: found # spills" in lines
    assert "| 1 | - | design_algorithm | pass | 1.50x | one \\| pass over |" in lines
    assert "| 2 | - | design_algorithm | wrong | - | - |" in lines
    assert "| 3 | - | design_algorithm | not judged | - | - |" in lines
    assert "Candidate 1." in lines
    fence = lines.index("````python")
    assert lines[fence + 1 : fence + 3] == ["x = '```'", "````"]


def test_report_of_a_fresh_session_has_no_champion() -> None:
    fresh = SESSION.model_copy(update={"screening": None})
    text = session_report(fresh, Standing(()), None)
    assert "not known yet" in text
    assert "## Champion" not in text


def test_untimed_champion_says_why() -> None:
    untimed = passing(1.0).model_copy(update={"timing": None, "timing_reason": "no GPU"})
    text = session_report(SESSION, Standing((Attempt(_candidate(1, ""), untimed),)), "x")
    assert "Not timed: no GPU" in text
