from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from egg_mcp.errors import SandboxError
from egg_mcp.executor.lease import device_lease, lease_folder, visible_device

pytestmark = pytest.mark.anyio


class _Said:
    """What a waiting lease reported, and a signal at its first word."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.first = anyio.Event()

    async def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.first.set()


async def test_second_holder_waits_until_the_first_has_left(tmp_path: Path) -> None:
    order: list[str] = []
    said = _Said()

    async def second() -> None:
        async with device_lease(tmp_path, "0", said):
            order.append("second")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group, device_lease(tmp_path, "0", _Said()):
            group.start_soon(second)
            await said.first.wait()
            order.append("first")
    assert order == ["first", "second"]
    assert said.lines == ["queued: 1 before this one on the device"]


async def test_waiting_holders_come_in_order_and_know_their_position(tmp_path: Path) -> None:
    order: list[int] = []
    said = [_Said() for _ in range(3)]

    async def waiter(number: int) -> None:
        async with device_lease(tmp_path, "0", said[number]):
            order.append(number)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group, device_lease(tmp_path, "0", _Said()):
            for number in range(3):
                group.start_soon(waiter, number)
                await said[number].first.wait()
    assert order == [0, 1, 2]
    for number in range(3):
        positions = [int(line.split()[1]) for line in said[number].lines]
        assert positions[0] == number + 1
        assert positions == sorted(set(positions), reverse=True)
    assert list((tmp_path / "0.queue").iterdir()) == []


async def test_ticket_of_a_dead_server_holds_nobody_up(tmp_path: Path) -> None:
    queue = tmp_path / "0.queue"
    queue.mkdir()
    (queue / "00000000000000000001-1").touch()
    said = _Said()
    with anyio.fail_after(30):
        async with device_lease(tmp_path, "0", said):
            assert said.lines == []
    assert list(queue.iterdir()) == []


async def test_other_device_is_free_meanwhile(tmp_path: Path) -> None:
    said = _Said()
    with anyio.fail_after(30):
        async with device_lease(tmp_path, "0", said), device_lease(tmp_path, "GPU-1/2", said):
            assert (tmp_path / "GPU-1-2.lock").stat().st_mode & 0o777 == 0o600
    assert said.lines == []


async def test_lease_is_free_after_an_error_and_after_giving_up(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with device_lease(tmp_path, "0", _Said()):
            raise KeyError
    async with device_lease(tmp_path, "0", _Said()):
        with anyio.move_on_after(0) as gave_up:
            async with device_lease(tmp_path, "0", _Said()):
                raise AssertionError("two holders")
    assert gave_up.cancelled_caught
    said = _Said()
    async with device_lease(tmp_path, "0", said):
        assert said.lines == []


def test_folder_of_the_locks_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = lease_folder()
    assert folder == lease_folder()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700


def test_link_in_the_place_of_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"egg-mcp-locks-{os.getuid()}").symlink_to("elsewhere")
    with pytest.raises(SandboxError, match="set TMPDIR"):
        lease_folder()


@pytest.mark.parametrize(
    ("value", "device"), [(None, "0"), ("", "none"), ("1", "1"), (" GPU-a , 1", "GPU-a")]
)
def test_device_is_the_first_visible_one(value: str | None, device: str) -> None:
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    assert visible_device(environment) == device
