"""Every attack is stopped by the best box of this machine, and would not be without one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack

import pytest

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.everything import ATTACKS
from benchmarks.attacks.needs import unmet
from benchmarks.attacks.shooting_range import ShootingRange, tight_settings
from benchmarks.escapes import watched
from egg_mcp.errors import SandboxRefused

_LEAST_KINDS = 45
_LEAST_BARE = 25
_PLAIN = [one for one in ATTACKS if not one.watched]
_WATCHED = [one for one in ATTACKS if one.watched]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def _open(stack: AsyncExitStack, *, is_watched: bool) -> ShootingRange:
    """Strict, or the best that there is."""
    for mode in ("strict", "auto"):
        settings = tight_settings(mode, "emulated")
        chosen = watched(settings) if is_watched else settings
        try:
            return await stack.enter_async_context(ShootingRange.open(chosen))
        except SandboxRefused as error:
            refused = str(error)
    pytest.skip(f"no box is to be had here: {refused}")


@pytest.fixture(scope="module")
async def boxed() -> AsyncGenerator[ShootingRange]:
    async with AsyncExitStack() as stack:
        yield await _open(stack, is_watched=False)


@pytest.fixture(scope="module")
async def watched_box() -> AsyncGenerator[ShootingRange]:
    async with AsyncExitStack() as stack:
        yield await _open(stack, is_watched=True)


async def _must_be_stopped(shooting: ShootingRange, attack: Attack) -> None:
    if missing := unmet(attack, has_gpu=False):
        pytest.skip(missing)
    result = await shooting.run(attack)
    if result.succeeded and (why := attack.known or await _said_to_be_weak(shooting, attack)):
        pytest.xfail(why)
    assert not result.succeeded, f"{attack.tried}: {'; '.join(result.proofs)} ({result.said})"


async def _said_to_be_weak(shooting: ShootingRange, attack: Attack) -> str:
    """Why this box does not promise to stop it; strict promises all."""
    weak = {one.name: one.why for one in (await shooting.report()).weak}
    return weak.get(attack.breaks, "") if attack.breaks else ""


@pytest.mark.parametrize("attack", _PLAIN, ids=lambda attack: attack.name)
async def test_the_box_stops(boxed: ShootingRange, attack: Attack) -> None:
    await _must_be_stopped(boxed, attack)


@pytest.mark.parametrize("attack", _WATCHED, ids=lambda attack: attack.name)
async def test_a_hoarder_is_ended_while_the_machine_has_memory(
    watched_box: ShootingRange, attack: Attack
) -> None:
    await _must_be_stopped(watched_box, attack)


@pytest.mark.slow
@pytest.mark.skipif(
    "EGG_BARE_ATTACKS" not in os.environ,
    reason="attacks this machine without a box: only where EGG_BARE_ATTACKS is set",
)
async def test_without_a_box_many_get_through() -> None:
    mixed: Sequence[Attack] = (*ATTACKS[::2], *ATTACKS[1::2])
    through: list[str] = []
    async with ShootingRange.open(tight_settings("off", "emulated")) as bare:
        for attack in mixed:
            if len(through) == _LEAST_BARE:
                break
            if attack.bare and not attack.watched and not unmet(attack, has_gpu=False):
                result = await bare.run(attack)
                through += [attack.name] if result.succeeded else []
    assert len(through) == _LEAST_BARE, through


def test_attacks_have_names_of_their_own() -> None:
    names = {one.name for one in ATTACKS}
    assert len(names) == len(ATTACKS) >= _LEAST_KINDS


def test_what_endangers_the_machine_is_not_run_without_a_box() -> None:
    by_name = {one.name: one for one in ATTACKS}
    for name in ("fork-bomb", "kill-all", "killpg-of-the-server", "fill-tmp", "memfd-hoard"):
        assert not by_name[name].bare
