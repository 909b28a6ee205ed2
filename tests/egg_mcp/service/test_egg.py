from __future__ import annotations

import random
from pathlib import Path

import anyio
import pytest

from egg_mcp.errors import UnknownCandidate, UnknownJob, UnknownSession
from egg_mcp.sandbox.evaluation import Evaluation
from egg_mcp.service import Egg
from egg_mcp.service.docket import Submission
from egg_mcp.service.egg import changed_uris
from egg_mcp.service.source_input import SourceInput
from egg_mcp.session.standing import measurably_faster
from egg_mcp.settings import LOCAL_PRINCIPAL, Settings
from egg_mcp.testing import FAKE_DEVICE, FakeExecutor
from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import SUBMITTING_STAGES, Stage

pytestmark = pytest.mark.anyio

REFERENCE = SourceInput("class Model: ...\ndef get_inputs(): ...\n", "rows")


async def _quiet(_: str) -> None:
    return None


async def _beat(_: float, __: str) -> None:
    return None


async def _done(egg: Egg, job: Job) -> Job:
    return await egg.jobs.wait(job.job_id, LOCAL_PRINCIPAL, 30.0, _beat)


async def _session(egg: Egg) -> SessionRecord:
    job = egg.docket.open_session(REFERENCE, PrecisionPolicy.STRICT, LOCAL_PRINCIPAL, fresh=False)
    await _done(egg, job)
    assert job.session_id is not None
    return egg.session(job.session_id, LOCAL_PRINCIPAL)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", workspace=tmp_path)


@pytest.mark.parametrize("seed", range(3))
async def test_lineage_is_a_tree_and_the_champion_never_gets_slower(
    seed: int, settings: Settings
) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same sequences each time
    async with Egg.open(settings, FakeExecutor(), _quiet) as egg:
        session = await _session(egg)
        taken, before = 0, None
        for step in range(40):
            parent = draw.choice([None, draw.randrange(1, 45)])
            speed = f" SPEED={draw.uniform(0.5, 4)}" if draw.random() < 0.7 else ""
            kernel = Submission(f"# {step}{speed}", parent, "", ())
            stage = draw.choice(SUBMITTING_STAGES)
            if parent is not None and parent > taken:
                with pytest.raises(UnknownCandidate):
                    egg.docket.submit(session, stage, kernel)
                continue
            await _done(egg, egg.docket.submit(session, stage, kernel))
            taken += 1
            champion = egg.standing(session.session_id).champion
            if before is not None and champion is not before:
                assert champion is not None
                assert champion.timing is not None
                assert before.timing is not None
                assert not measurably_faster(before.timing, champion.timing)
            before = champion
        attempts = egg.standing(session.session_id).attempts
    assert [attempt.candidate.number for attempt in attempts] == list(range(1, taken + 1))
    assert all(
        attempt.candidate.parent is None or attempt.candidate.parent < attempt.candidate.number
        for attempt in attempts
    )


async def test_sessions_and_jobs_belong_to_who_opened_them(settings: Settings) -> None:
    async with Egg.open(settings, FakeExecutor(), _quiet) as egg:
        session = await _session(egg)
        job = egg.docket.submit(session, Stage.DESIGN_ALGORITHM, Submission("x", None, "", ()))
        with pytest.raises(UnknownSession):
            egg.session(session.session_id, "somebody else")
        with pytest.raises(UnknownJob):
            egg.jobs.get(job.job_id, "somebody else")
        with pytest.raises(UnknownJob):
            await egg.jobs.cancel(job.job_id, "somebody else")
        theirs = egg.docket.open_session(
            REFERENCE, PrecisionPolicy.STRICT, "somebody else", fresh=False
        )
        assert theirs.session_id != session.session_id
        assert (await _done(egg, job)).status.is_final


async def test_verdict_of_another_device_is_made_again(settings: Settings) -> None:
    executor = FakeExecutor()
    kernel = Submission("# SPEED=2.0", None, "", ())
    async with Egg.open(settings, executor, _quiet) as egg:
        session = await _session(egg)
        first = await _done(egg, egg.docket.submit(session, Stage.DESIGN_ALGORITHM, kernel))
        assert egg.docket.submit(session, Stage.DESIGN_ALGORITHM, kernel).job_id == first.job_id
        executor.known_device = FAKE_DEVICE.model_copy(update={"name": "Another GPU"})
        again = egg.docket.submit(session, Stage.DESIGN_ALGORITHM, kernel)
        assert again.job_id != first.job_id
        assert (await _done(egg, again)).status.is_final


async def test_each_end_of_a_job_is_published_with_what_it_changes(settings: Settings) -> None:
    published: list[str] = []

    async def publish(uri: str) -> None:
        published.append(uri)

    async with Egg.open(settings, FakeExecutor(), publish) as egg:
        session = await _session(egg)
        job = egg.docket.submit(session, Stage.DESIGN_ALGORITHM, Submission("x", None, "", ()))
        await _done(egg, job)
        await anyio.lowlevel.checkpoint()
    base = f"egg://sessions/{session.session_id}"
    assert f"{base}/candidates/1/verdict" in changed_uris(job)
    assert set(changed_uris(job)) <= set(published)
    assert f"egg://jobs/{job.job_id}/log" in published


async def test_end_that_cannot_be_made_whole_fails_its_job_alone(settings: Settings) -> None:
    class Odd(FakeExecutor):
        async def evaluate(self, *_: object, **__: object) -> Evaluation:
            return None  # pyright: ignore[reportReturnType] - a bug in an executor

    async with Egg.open(settings, Odd(), _quiet) as egg:
        session = await _session(egg)
        job = egg.docket.submit(session, Stage.DESIGN_ALGORITHM, Submission("x", None, "", ()))
        ended = await _done(egg, job)
        assert ended.status == "failed"
        assert "internal error" in (ended.error or "")
        assert egg.standing(session.session_id).champion is None


async def test_log_holds_what_a_job_said(settings: Settings) -> None:
    async with Egg.open(settings, FakeExecutor(), _quiet) as egg:
        session = await _session(egg)
        job = egg.docket.submit(session, Stage.DESIGN_ALGORITHM, Submission("x", None, "", ()))
        await _done(egg, job)
        assert "trial 1 of 1" in egg.store.jobs.log(job.job_id).text
