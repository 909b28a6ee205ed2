"""Tries to get out of the sandbox: every attack bare, where that is safe, and in the box.

An attack has succeeded when something outside of the candidate shows it: a secret that came out,
a file, process or socket that was reached, a survivor, a value that the next candidate found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.everything import ATTACKS
from benchmarks.attacks.needs import unmet
from benchmarks.attacks.scene import WATCHED_BYTES
from benchmarks.attacks.shooting_range import Result, ShootingRange, tight_settings
from benchmarks.result_file import device_slug, write_result
from egg_mcp.errors import SandboxRefused
from egg_mcp.sandbox.machine_memory import available_bytes
from egg_mcp.settings import SandboxMode, Settings

_NOT_BARE = "not run bare"
_KNOWN = {one.name: one.known for one in ATTACKS if one.known}
_NAME_WIDTH, _WORD_WIDTH = 32, 13


@dataclass(slots=True)
class Shots:
    """The results under one sandbox mode."""

    mode: SandboxMode
    box: str = ""
    results: dict[str, Result] = field(default_factory=dict[str, Result])
    skipped: dict[str, str] = field(default_factory=dict[str, str])

    def word(self, name: str) -> str:
        """Of one attack, for the table."""
        if name in self.skipped:
            return self.skipped[name]
        if not self.results[name].succeeded:
            return "stopped"
        return "known" if name in _KNOWN and self.mode != "off" else "SUCCEEDED"

    def proof(self, name: str) -> str:
        """What shows it, or what became of the candidate."""
        result = self.results.get(name)
        if result is None:
            return ""
        return "; ".join(result.proofs) if result.succeeded else result.said

    @property
    def succeeded(self) -> int:
        """How many, those left out that no property promises to stop."""
        return sum(self.word(name) == "SUCCEEDED" for name in self.results)


def run(out: str, bare: bool = False) -> int:
    """Run every attack; 1 when one succeeded in a box that must hold everything.

    Args:
        out: folder for the result.
        bare: whether to attack this machine without a box, too, for comparison.
    """
    boxed, unboxed = anyio.run(_shoot, bare)
    lines = list(_table(boxed, unboxed))
    print("\n".join(lines))
    write_result(out, "escapes", device_slug(), "\n".join(lines) + "\n")
    return 1 if boxed.mode == "strict" and boxed.succeeded else 0


async def _shoot(is_bare: bool) -> tuple[Shots, Shots]:
    bare = Shots("off")
    if is_bare:
        await _shoot_all(bare, ATTACKS)
    else:
        bare.skipped = {one.name: _NOT_BARE for one in ATTACKS}
    boxed = Shots("strict")
    try:
        await _shoot_all(boxed, ATTACKS)
    except SandboxRefused as error:
        print(f"strict is not to be had here, so auto: {error}")
        boxed = Shots("auto")
        await _shoot_all(boxed, ATTACKS)
    return boxed, bare


async def _shoot_all(shots: Shots, attacks: Sequence[Attack]) -> None:
    on_gpu = device_slug() != "cpu"
    settings = tight_settings(shots.mode, "auto", on_gpu=on_gpu)
    wanted = [one for one in attacks if _is_wanted(one, shots, has_gpu=on_gpu)]
    for is_watched in (False, True):
        group = [one for one in wanted if one.watched is is_watched]
        if not group:
            continue
        chosen = watched(settings) if is_watched else settings
        async with ShootingRange.open(chosen) as shooting:
            shots.box = (await shooting.report()).short
            for attack in group:
                shots.results[attack.name] = await shooting.run(attack)
                said = f"{shots.word(attack.name):<10}{shots.proof(attack.name)[:200]}"
                print(f"{shots.mode:<7}{attack.name:<{_NAME_WIDTH}}{said}", flush=True)


def watched(settings: Settings) -> Settings:
    """The same where a worker is ended long before it holds what the attacks are after."""
    least = (available_bytes() or 0) - WATCHED_BYTES // 2
    return settings.model_copy(update={"least_free_memory_bytes": max(0, least)})


def _is_wanted(attack: Attack, shots: Shots, *, has_gpu: bool) -> bool:
    missing = unmet(attack, has_gpu=has_gpu)
    if not missing and shots.mode == "off" and not attack.bare:
        missing = _NOT_BARE
    if missing:
        shots.skipped[attack.name] = missing
    return not missing


def _table(boxed: Shots, bare: Shots) -> list[str]:
    head = f"{'attack':<{_NAME_WIDTH}}{'off':<{_WORD_WIDTH}}{boxed.mode:<{_WORD_WIDTH}}"
    lines = ["", f"{head}what it tries; what shows the outcome"]
    for attack in ATTACKS:
        name = attack.name
        words = f"{bare.word(name):<{_WORD_WIDTH}} {boxed.word(name):<{_WORD_WIDTH}} "
        seen = f"off: {bare.proof(name)}" if bare.proof(name) else "off: -"
        inside = f"{boxed.mode}: {boxed.proof(name) or '-'}"
        lines.append(f"{name:<{_NAME_WIDTH}}{words}{attack.tried}. {inside} | {seen}")
    for shots in (bare, boxed):
        lines.append(
            f"{shots.mode}: succeeded {shots.succeeded} of {len(shots.results)}; {shots.box}"
        )
        lines += [
            f"  known, and promised by no property: {name}: {_KNOWN[name]}"
            for name in shots.results
            if shots.word(name) == "known"
        ]
        skipped = sorted(set(shots.skipped.values()))
        lines += [
            f"  {why}: {', '.join(name for name, each in shots.skipped.items() if each == why)}"
            for why in skipped
        ]
    return lines
