"""Device mailboxes with workers that lie about descriptors: real processes, real sockets."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from egg_mcp.sandbox import frames
from egg_mcp.sandbox.channel import Channel
from egg_mcp.sandbox.device_mailboxes import share_memory
from egg_mcp.sandbox.referee import Referee
from egg_mcp.sandbox.worker_process import WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.problem import Problem
from tests.sandbox.evaluation.judging import settings
from tests.sandbox.parent.speaking import SpeakingLauncher, open_descriptors

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="device memory is shared on Linux only"),
]

PROBLEM = Problem(problem_hash="0" * 64, title="none", source="")
DEVICE = "/dev/null"
"""A character device, as what the driver exports is."""
MADE = {"ok": True, "sizes": [1, 1]}
REFUSED = {"ok": False, "error": {"kind": "no_segment", "message": "not here"}}
NOTHING: list[str] = []
Script = dict[str, Any]


@pytest.fixture
async def group() -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as task_group:
        yield task_group
        task_group.cancel_scope.cancel()


class Pair:
    """A referee and a candidate that follow scripts."""

    def __init__(self, referee: WorkerProcess, candidate: WorkerProcess, plain: Settings) -> None:
        self.worker, self.candidate, self._settings = referee, candidate, plain
        self.referee = Referee(referee, PROBLEM, plain)

    async def share(self) -> bool:
        return await share_memory(self.referee, self.candidate, self._settings)

    async def seen(self, worker: WorkerProcess) -> list[str]:
        """What was asked of it, with how many descriptors."""
        return (await worker.call("seen", phase="seen", deadline_s=10))["seen"][:-1]

    async def aclose(self) -> None:
        await self.worker.aclose()
        await self.candidate.aclose()


async def start(
    group: anyio.abc.TaskGroup, folder: Path, referee: Script, candidate: Script
) -> Pair:
    plain = settings(folder)
    says: Any = {"referee": json.dumps(referee), "candidate": json.dumps(candidate)}
    launcher = SpeakingLauncher(group, says)
    first = await WorkerProcess.start("referee", launcher, plain)
    return Pair(first, await WorkerProcess.start("candidate", launcher, plain), plain)


async def test_descriptors_go_from_referee_to_candidate(
    group: anyio.abc.TaskGroup, tmp_path: Path
) -> None:
    pair = await start(group, tmp_path, {"make_memory": [MADE, [DEVICE] * 2]}, {})
    try:
        before = open_descriptors()
        assert await pair.share()
        assert open_descriptors() == before
        assert await pair.seen(pair.candidate) == ["open_memory 2"]
        assert await pair.seen(pair.worker) == ["make_memory 0"]
    finally:
        await pair.aclose()


@pytest.mark.parametrize(
    "sent",
    [[], [DEVICE], [DEVICE] * 3, [DEVICE] * 8, [DEVICE, "/"], [DEVICE, __file__]],
    ids=["none", "one", "three", "eight", "a folder", "a file"],
)
@pytest.mark.parametrize("claim", [{}, {"fds": 2, "descriptors": [0, 1]}], ids=["plain", "claims"])
async def test_what_was_not_asked_for_is_closed_and_files_are_used(
    claim: Script, sent: list[str], group: anyio.abc.TaskGroup, tmp_path: Path
) -> None:
    pair = await start(group, tmp_path, {"make_memory": [{**MADE, **claim}, sent]}, {})
    try:
        before = open_descriptors()
        assert not await pair.share()
        assert open_descriptors() == before
        assert await pair.seen(pair.candidate) == []
        # The memory goes back, too.
        assert await pair.seen(pair.worker) == ["make_memory 0", "drop_memory 0"]
    finally:
        await pair.aclose()


@pytest.mark.parametrize(
    ("referee", "candidate"),
    [
        ({"make_memory": [REFUSED, [DEVICE] * 2]}, {}),
        ({"make_memory": [{"ok": True, "why": "too little"}, NOTHING]}, {}),
        ({"make_memory": [MADE, [DEVICE] * 2]}, {"open_memory": [REFUSED, NOTHING]}),
        ({"make_memory": [MADE, [DEVICE] * 2]}, {"open_memory": [{"ok": 1}, NOTHING]}),
    ],
    ids=["referee refuses", "referee cannot", "candidate refuses", "candidate talks nonsense"],
)
async def test_who_cannot_have_them_does_without(
    referee: Script, candidate: Script, group: anyio.abc.TaskGroup, tmp_path: Path
) -> None:
    pair = await start(group, tmp_path, referee, candidate)
    try:
        assert not await pair.share()
        assert pair.worker.is_running
        assert (await pair.seen(pair.worker))[-1] == "drop_memory 0"
    finally:
        await pair.aclose()


async def test_no_descriptor_of_a_candidate_gets_in(
    group: anyio.abc.TaskGroup, tmp_path: Path
) -> None:
    script = {"ready": [DEVICE], "anything": [{"ok": True, "fds": 3}, [DEVICE] * 3]}
    pair = await start(group, tmp_path, {}, script)
    try:
        before = open_descriptors()
        await pair.candidate.call("anything", phase="test", deadline_s=10)
        assert pair.candidate.take_descriptors() == []
        assert open_descriptors() == before
    finally:
        await pair.aclose()


async def test_what_a_referee_sends_unasked_is_closed_at_the_next_request(
    group: anyio.abc.TaskGroup, tmp_path: Path
) -> None:
    pair = await start(group, tmp_path, {"judge": [{"ok": True}, [DEVICE] * 5]}, {})
    try:
        before = open_descriptors()
        await pair.worker.call("judge", phase="test", deadline_s=10)
        await pair.worker.call("forget", phase="test", deadline_s=10)
        assert open_descriptors() == before
    finally:
        await pair.aclose()


async def test_a_message_brings_eight_descriptors_at_most() -> None:
    ours, theirs = Channel.pair(takes_descriptors=True)
    before = open_descriptors()
    data = frames.encode({"ok": True, "text": "x" * 64})
    with theirs, open(os.devnull, encoding="ascii") as null:  # noqa: ASYNC230, PTH123
        # Some with every few bytes: each reading brings some.
        for start_ in range(0, len(data), 8):
            socket.send_fds(theirs, [data[start_ : start_ + 8]], [null.fileno()] * 3)
        assert (await ours.receive())["ok"]
        taken = ours.take_descriptors()
        assert len(taken) == 8
        assert not any(os.get_inheritable(each) for each in taken)
        for each in taken:
            os.close(each)
        assert open_descriptors() == before + 1
    ours.close()
