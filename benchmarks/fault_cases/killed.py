"""Faults from outside: something kills or stops a part of what runs."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from typing import Literal

import anyio
import anyio.lowlevel

from benchmarks.fault_cases.bench import Bench, aftermath, attempt, warm
from benchmarks.fault_cases.case import Case, Outcome
from benchmarks.fault_cases.sources import HONEST, SUM, candidate, reference
from benchmarks.fault_cases.subject import Subject, chain
from egg_mcp.errors import SandboxError
from egg_mcp.vocabulary.fault import Fault

Part = Literal["guard", "keeper", "worker", "referee", "zygote"]
_DEPTH = {"guard": 0, "keeper": 1, "worker": 2}
_EVER = 1_000


class Killer:
    """Sends a signal to a part of what runs, when a line of progress comes."""

    def __init__(
        self,
        subject: Subject,
        part: Part,
        at: str = "trial 2",
        times: int = 1,
        which: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.said: list[str] = []
        self._subject = subject
        self._part = part
        self._at = at
        self._left = times
        self._which = which
        self._idle: set[int] = set()

    async def __call__(self, line: str) -> None:
        """Take a line of progress."""
        self.said.append(line)
        if line.startswith("starting the candidate"):
            self._idle = self._subject.guards()
        if line.startswith(self._at) and self._left:
            self._left -= 1
            self.strike()

    def strike(self) -> None:
        """Send the signal now."""
        for process in self._targets():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, self._which)

    def _targets(self) -> list[int]:
        if self._part == "zygote":
            return [self._subject.zygote]
        if self._part == "referee":
            return sorted(self._idle or self._subject.guards())
        guards = self._subject.guards() - self._idle
        return [chain(guard)[_DEPTH[self._part]] for guard in guards]


async def _during(bench: Bench, part: Part, times: int = 1) -> Outcome:
    """Kill in the second trial of an honest candidate, whose reference is warm."""
    await warm(bench.shared)
    killer = Killer(bench.shared, part, times=times)
    return await bench.observe(bench.shared, HONEST, killer)


async def _while_idle(bench: Bench, part: Part) -> Outcome:
    await warm(bench.shared)
    zygote, referees = bench.shared.zygote, bench.shared.guards()
    Killer(bench.shared, part).strike()
    got, text = await attempt(bench.shared, HONEST)
    return await aftermath(bench.shared, got, text, zygote, referees)


async def _during_a_screening(bench: Bench, part: Part) -> Outcome:
    """The reference hangs, so that it is still being run when the part is killed."""
    await warm(bench.shared)
    zygote, idle = bench.shared.zygote, bench.shared.guards()
    slow = reference(forward="time.sleep(1000)", title="Slow sum.")
    got, text = "", ""

    async def strike() -> None:
        while not bench.shared.guards() - idle:
            await anyio.lowlevel.checkpoint()
        Killer(bench.shared, part).strike()

    async with anyio.create_task_group() as group:
        group.start_soon(strike)
        try:
            screening = await bench.shared.executor.screen(slow, _quiet)
            got, text = f"{screening.status}/-", screening.explanation
        except SandboxError as error:
            got, text = f"failed/{error.fault}", f"{error} {Fault(error.fault).next_step}"
    return await aftermath(bench.shared, got, text, zygote, idle)


async def _while_two_wait(bench: Bench) -> Outcome:
    """The zygote dies below one job while two others wait: all three are judged right."""
    await warm(bench.shared)
    zygote, referees = bench.shared.zygote, bench.shared.guards()
    killer = Killer(bench.shared, "zygote")
    found: list[tuple[str, str]] = []

    async def judge(report: Killer | None) -> None:
        found.append(await attempt(bench.shared, HONEST, report))

    async with anyio.create_task_group() as group:
        for report in (killer, None, None):
            group.start_soon(judge, report)
    odd = [one for one in found if one != found[0]]
    got, text = (odd or found)[0]
    return await aftermath(bench.shared, got, text, zygote, referees)


async def _stopped_zygote(bench: Bench) -> Outcome:
    """It does not answer any more: given up after its deadline, and another one started."""
    async with bench.own(start_deadline_s=5) as subject:
        await warm(subject)
        zygote, referees = subject.zygote, subject.guards()
        os.kill(zygote, signal.SIGSTOP)
        got, text = await attempt(subject, HONEST)
        return await aftermath(subject, got, text, zygote, referees)


async def _stopped_in_the_middle(bench: Bench) -> Outcome:
    """It does not say any more how a candidate ended: nobody knows, so nobody is blamed."""
    async with bench.own(start_deadline_s=5) as subject:
        await warm(subject)
        zygote, referees = subject.zygote, subject.guards()
        killer = Killer(subject, "zygote", which=signal.SIGSTOP)
        source = candidate(forward="if self.calls > 1:\n    os._exit(0)")
        got, text = await attempt(subject, source, killer)
        return await aftermath(subject, got, text, zygote, referees)


async def _cold(bench: Bench, part: Part) -> Outcome:
    """Killed in each run, with no warm reference to begin with."""
    problem = reference(title=f"Sum, {part} killed.")
    killer = Killer(bench.shared, part, times=_EVER)
    await warm(bench.shared)
    zygote, referees = bench.shared.zygote, bench.shared.guards()
    got, text = await attempt(bench.shared, HONEST, killer, problem)
    return await aftermath(bench.shared, got, text, zygote, referees)


async def _cancelled(bench: Bench) -> Outcome:
    """Its caller gives up while the candidate hangs."""
    await warm(bench.shared)
    zygote, referees = bench.shared.zygote, bench.shared.guards()
    with anyio.CancelScope() as scope:

        async def give_up(line: str) -> None:
            if line.startswith("trial 1"):
                scope.cancel()

        await attempt(bench.shared, candidate(forward="time.sleep(1000)"), give_up, SUM)
    left = bench.shared.guards() - referees
    outcome = await aftermath(bench.shared, "cancelled/-", "", zygote, referees)
    wrong = f"{len(left)} processes went on" if left else outcome.wrong
    return Outcome(outcome.got, outcome.text, outcome.next_passed, outcome.lost, wrong)


async def _quiet(_: str) -> None:
    """Takes progress and drops it."""


_AGAIN = "a first run was killed from outside"

CASES = (
    *(
        Case(f"{part}-killed-once", "pass/-", partial(_during, part=part), _AGAIN)
        for part in ("guard", "keeper", "worker")
    ),
    *(
        Case(
            f"{part}-killed-each-time",
            "crashed/killed",
            partial(_during, part=part, times=_EVER),
        )
        for part in ("guard", "keeper", "worker")
    ),
    Case("reference-killed-idle", "pass/-", partial(_while_idle, part="referee")),
    Case("reference-killed-in-the-middle", "pass/-", partial(_during, part="referee")),
    Case("reference-killed-each-time", "failed/reference_died", partial(_cold, part="referee")),
    Case(
        "reference-killed-in-its-screening",
        "failed/reference_died",
        partial(_during_a_screening, part="referee"),
    ),
    Case("zygote-killed-idle", "pass/-", partial(_while_idle, part="zygote")),
    Case("zygote-killed-in-the-middle", "pass/-", partial(_during, part="zygote")),
    Case("zygote-killed-each-time", "failed/zygote_died", partial(_cold, part="zygote")),
    Case(
        "zygote-killed-in-a-screening",
        "failed/zygote_died",
        partial(_during_a_screening, part="zygote"),
    ),
    Case("zygote-killed-while-two-wait", "pass/-", _while_two_wait),
    Case("zygote-stopped", "pass/-", _stopped_zygote),
    Case("zygote-stopped-in-the-middle", "failed/zygote_died", _stopped_in_the_middle),
    Case("caller-gives-up", "cancelled/-", _cancelled),
)
