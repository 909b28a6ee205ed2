"""Injects faults one after the other: is each called what it is, and is the next job right?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio

from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import NOTHING, Case, Outcome
from benchmarks.fault_cases.everything import GROUPS, unmet
from benchmarks.result_file import device_slug, write_result

_MOST_S = 150.0
_HEAD = f"{'fault':<40} {'expected':<30} {'got':<30} {'next':<5} lost"


@dataclass(frozen=True, slots=True)
class Line:
    """One case in the table."""

    case: Case
    outcome: Outcome | None
    wrong: str
    skipped: str = ""

    def __str__(self) -> str:
        if self.outcome is None:
            return f"{self.case.name:<40} {self.case.expected:<30} {self.skipped or self.wrong}"
        passed = "right" if self.outcome.next_passed else "WRONG"
        got = self.outcome.got.replace("emulated_pass", "pass")
        wrong = f"   WRONG: {self.wrong}" if self.wrong else ""
        return (
            f"{self.case.name:<40} {self.case.expected:<30} {got:<30} {passed:<5} "
            f"{self.outcome.lost}{wrong}"
        )


def run(out: str, only: str = "") -> int:
    """Inject every fault, or those of some groups; 1 when one is wrong.

    Args:
        out: folder for the result.
        only: names of groups, separated by commas; empty for all.
    """
    groups = [name for name in only.split(",") if name] or list(GROUPS)
    lines = anyio.run(_inject_all, groups)
    tried = [line for line in lines if not line.skipped]
    wrong = sum(bool(line.wrong) for line in tried)
    lost = sum(line.outcome is not None and line.outcome.lost != NOTHING for line in tried)
    end = (
        f"wrong {wrong} of {len(tried)}; {len(lines) - len(tried)} need what this machine lacks; "
        f"{lost} cost a process that was started again, none lost work that was acknowledged"
    )
    print(end)
    name = "faults" if not only else f"faults-{'-'.join(groups)}"
    write_result(out, name, device_slug(), "\n".join([_HEAD, *map(str, lines), end]) + "\n")
    return 1 if wrong else 0


async def _inject_all(groups: list[str]) -> list[Line]:
    lines: list[Line] = []
    print(_HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kind = "emulated" if device_slug() == "cpu" else "cuda"
        async with Bench.open(Path(folder), kind) as bench:
            for case in (case for name in groups for case in GROUPS[name]):
                lines.append(await inject(case, bench))
                print(lines[-1], flush=True)
    return lines


async def inject(case: Case, bench: Bench) -> Line:
    """One fault, with a bound on how long it may take to come out right."""
    lacks = unmet(case, bench)
    if lacks:
        return Line(case, None, "", lacks)
    outcome: Outcome | None = None
    with anyio.move_on_after(_MOST_S):
        outcome = await case.inject(bench)
    if outcome is None:
        return Line(case, None, f"WRONG: not dealt with in {_MOST_S:g} s")
    return Line(case, outcome, case.judge(outcome))
