"""The zygote and what it forks, through the parent's own classes, emulated."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from egg_mcp.errors import SandboxRefused, WorkerUnavailable, ZygoteDied
from egg_mcp.executor import LocalExecutor
from egg_mcp.sandbox.canary import sing
from egg_mcp.sandbox.process_tree import descendants
from egg_mcp.sandbox.worker_process import WorkerProcess
from egg_mcp.sandbox.zygote import Zygote
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import Rigor
from tests.sandbox.evaluation.judging import problem, quiet, settings, text

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="zygotes are for Linux"),
]


@pytest.fixture
async def group() -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as task_group:
        yield task_group
        task_group.cancel_scope.cancel()


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    return settings(tmp_path)


@pytest.fixture
async def zygote(plain: Settings, group: anyio.abc.TaskGroup) -> AsyncIterator[Zygote]:
    running = await Zygote.start(plain, group)
    yield running
    await running.aclose()


async def test_zygote_has_one_thread_and_says_what_its_box_holds(
    zygote: Zygote, plain: Settings
) -> None:
    assert _threads(zygote.pid) == 1
    assert zygote.device.kind == "emulated"
    assert len(zygote.sandbox.properties) == 8
    assert zygote.device.sandbox == zygote.sandbox.short
    worker = await WorkerProcess.start("canary", zygote, plain)
    await worker.aclose()
    assert worker.device is not None
    assert worker.device.sandbox == zygote.sandbox.short


async def test_forks_live_side_by_side(zygote: Zygote, plain: Settings) -> None:
    workers = [await WorkerProcess.start("canary", zygote, plain) for _ in range(3)]
    assert len({worker.pid for worker in workers}) == 3
    for worker in workers:
        reply = await worker.call("sing", phase="test", deadline_s=20)
        assert reply["free_bytes"] is None
        await worker.aclose()


async def test_forks_do_not_share_their_generators(tmp_path: Path) -> None:
    drawn = "import random, numpy\nprint('drawn', random.random(), numpy.random.random())\n"
    source = drawn + text("candidates", "add_right")
    seen: list[str] = []
    async with LocalExecutor(settings(tmp_path)) as executor:
        for _ in range(2):
            found = await executor.evaluate(
                problem("good_add"), source, PrecisionPolicy.STRICT, Rigor.QUICK, quiet
            )
            seen += [line for line in found.printed.splitlines() if line.startswith("drawn")]
    first, second = (line.split()[1:] for line in seen)
    assert first[0] != second[0]
    assert first[1] != second[1]


async def test_descriptors_and_processes_are_as_before_after_many_forks(
    zygote: Zygote, plain: Settings
) -> None:
    assert await sing(zygote, plain) is None
    before = (_descriptors(os.getpid()), _descriptors(zygote.pid))
    for _ in range(5):
        assert await sing(zygote, plain) is None
    assert (_descriptors(os.getpid()), _descriptors(zygote.pid)) == before
    assert descendants(zygote.pid) == [zygote.pid]


async def test_launch_that_is_cancelled_leaves_no_worker(zygote: Zygote, plain: Settings) -> None:
    assert await sing(zygote, plain) is None
    before = _descriptors(os.getpid())
    for _ in range(3):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await WorkerProcess.start("canary", zygote, plain)
        assert scope.cancelled_caught
    # Answers come in order: when this one is here, the earlier ones have been dealt with.
    assert await sing(zygote, plain) is None
    with anyio.fail_after(20):
        while descendants(zygote.pid) != [zygote.pid] or _descriptors(os.getpid()) != before:
            await anyio.lowlevel.checkpoint()


async def test_killed_zygote_takes_its_workers_with_it_and_says_so(
    zygote: Zygote, plain: Settings
) -> None:
    worker = await WorkerProcess.start("canary", zygote, plain)
    below = descendants(worker.pid)
    os.kill(zygote.pid, signal.SIGKILL)
    await worker.aclose()
    with anyio.fail_after(20):
        while any(map(_exists, below)):
            await anyio.lowlevel.checkpoint()
    assert not zygote.is_running
    with pytest.raises(ZygoteDied):
        await WorkerProcess.start("canary", zygote, plain)


async def test_strict_names_each_property_that_is_missing(
    tmp_path: Path, group: anyio.abc.TaskGroup
) -> None:
    asked = settings(tmp_path, sandbox="strict")
    zygote: Zygote | None = None
    said = ""
    try:
        zygote = await Zygote.start(asked, group)
    except SandboxRefused as refused:
        said = str(refused)
    if zygote is None:
        assert "--sandbox strict needs every property" in said
        return
    assert zygote.sandbox.weak == ()
    await zygote.aclose()


async def test_off_says_so(tmp_path: Path, group: anyio.abc.TaskGroup) -> None:
    asked = settings(tmp_path, sandbox="off")
    zygote = await Zygote.start(asked, group)
    try:
        assert zygote.device.sandbox.startswith("off")
        assert zygote.sandbox.layers == ()
        assert await sing(zygote, asked) is None
    finally:
        await zygote.aclose()


async def test_zygote_that_is_not_ready_in_time_is_given_up(
    tmp_path: Path, group: anyio.abc.TaskGroup
) -> None:
    asked = settings(tmp_path, start_deadline_s=0.01)
    with pytest.raises(WorkerUnavailable, match="no worker comes up"):
        await Zygote.start(asked, group)


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
