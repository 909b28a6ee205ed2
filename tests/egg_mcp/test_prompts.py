from __future__ import annotations

from pathlib import Path

import pytest
from mcp.types import TextContent

from egg_mcp.store import Store
from egg_mcp.testing import failing, passing
from egg_mcp.vocabulary.stage import Stage
from tests.tools.desk import Desk, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio

ROLES = (
    "design_agent",
    "mapping_agent",
    "tiling_agent",
    "memory_agent",
    "profile_agent",
    "debug_agent",
)
MOST_BYTES = 6_000


async def _text(desk: Desk, name: str, **arguments: str) -> str:
    messages = (await desk.client.get_prompt(name, arguments)).messages
    assert len(messages) == 1
    content = messages[0].content
    assert isinstance(content, TextContent)
    return content.text


@in_both_eras
async def test_there_is_a_conductor_and_six_roles(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        prompts = (await desk.client.list_prompts()).prompts
    assert tuple(prompt.name for prompt in prompts) == ("optimize_kernel", *ROLES)
    for prompt in prompts:
        assert prompt.title
        assert prompt.description
        assert [argument.name for argument in prompt.arguments or ()] == [
            "reference" if prompt.name == "optimize_kernel" else "session_id"
        ]


@in_both_eras
async def test_conductor_names_the_reference_and_every_stage(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        text = await _text(desk, "optimize_kernel", reference="rows{0}.py")
    assert "rows{0}.py" in text
    assert all(stage.value in text for stage in Stage)
    assert "export_kernel" in text


@in_both_eras
async def test_role_is_filled_from_the_live_session(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5), rationale="one pass over the row")
        await desk.submit(session_id, kernel(), rationale="two rows at once")
        for name in ROLES:
            text = await _text(desk, name, session_id=session_id)
            assert f"of session {session_id}" in text
            assert "candidate 1: pass, 1.5x vs eager; one pass over the row" in text
            assert "Fake GPU" in text
            assert len(text.encode()) < MOST_BYTES
        failure = await _text(desk, "debug_agent", session_id=session_id)
        assert "Last failure: candidate 2, wrong" in failure
        assert f"egg://sessions/{session_id}/candidates/2" in failure


async def test_unknown_session_is_answered_in_words(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for name in ROLES:
            text = await _text(desk, name, session_id="none")
            assert "There is no session 'none' here" in text
            assert "session_status() lists" in text


async def test_role_stays_short_in_a_long_session(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
    with Store.open(tmp_path / "state") as store:
        for number in range(1, 201):
            store.candidates.add(
                session_id,
                Stage.DESIGN_ALGORITHM if number % 2 else Stage.TUNE_TILING,
                kernel(1.0 + number / 10, str(number)),
                number - 1 or None,
                "words upon words " * 110,
                (),
            )
            verdict = passing(1.0 + number / 10) if number % 3 else failing()
            store.verdicts.add(
                session_id,
                number,
                verdict.model_copy(update={"explanation": "long " * 2_000}),
                "job",
            )
    async with open_desk(tmp_path) as desk:
        for name in ROLES:
            text = await _text(desk, name, session_id=session_id)
            assert "Champions, best first:" in text
            assert len(text.encode()) < MOST_BYTES, name
