"""Stopwatch: interleaved rounds of candidate and live eager reference on one GPU.

The worker's clock (CUDA events) gives precision; the server's clock bounds it from outside; a
timed call chosen at random is judged like any trial. Constants: 15 rounds and the order-statistic
interval follow the protocol in DESIGN 7; the agreement bound is stated at `_disagreement`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from egg_mcp.sandbox.referee import Referee, new_seed
from egg_mcp.sandbox.sample_statistics import conclusion, paired_ratio, percentile
from egg_mcp.sandbox.shared_file import SharedFile
from egg_mcp.sandbox.trial_plan import PlannedTrial, judged
from egg_mcp.sandbox.worker_process import WorkerProcess
from egg_mcp.settings import Settings
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.verdict import ContenderTime, Rigor, Timing, Trial

ROUNDS = {Rigor.QUICK: 7, Rigor.FINAL: 15}
WARM_UP_MS = 300.0
"""GPU work before the first sample: shorter warm-ups read up to 30 % off (triton#2306)."""
BLOCK_MS = {Rigor.QUICK: 10.0, Rigor.FINAL: 20.0}
HOST_MS = 0.06
"""What a candidate's calls may cost the host above one and a half times what eager's cost it."""
TAIL_MS = 0.03
"""How much later than eager's device a candidate's device may become idle after a call."""
LEAST_CALLS = 10
MOST_CALLS = 200
_TIMED_TRIAL = -1
_IMPOSSIBLE = (1e-6,)
_NEVER_MS = 1e9

Report = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class _Samples:
    """What one contender's blocks gave."""

    blocks_ms: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    walls_ms: list[float] = field(default_factory=list[float])
    tails_ms: list[float] = field(default_factory=list[float])
    """By block: how much later than the call's end the whole device was idle."""

    def medians(self) -> list[float]:
        return [median(block) for block in self.blocks_ms]

    def time(self, name: str) -> ContenderTime:
        calls = [call for block in self.blocks_ms for call in block]
        return ContenderTime(
            name=name,
            median_ms=median(self.medians()),
            p10_ms=percentile(calls, 0.1),
            p90_ms=percentile(calls, 0.9),
            wall_median_ms=median(self.walls_ms),
        )


class Stopwatch:
    """Times one candidate that passed its trials."""

    def __init__(
        self,
        referee: Referee,
        candidate: WorkerProcess,
        settings: Settings,
        rigor: Rigor,
        policy: PrecisionPolicy,
    ) -> None:
        self._referee = referee
        self._candidate = candidate
        self._settings = settings
        self._rigor = rigor
        self._policy = policy
        self._seeds: list[int] = []
        self._samples: dict[str, _Samples] = {}

    async def measure(self, report: Report) -> tuple[Timing, Trial]:
        """Run all rounds.

        Returns:
            The timing, and the trial of the timed call that was re-checked.

        Raises:
            As `WorkerProcess.call`.
        """
        output_bytes = await self._prepare()
        await report("timing: warming up")
        for worker in (self._referee.worker, self._candidate):
            await self._ask(worker, "warm", min_ms=WARM_UP_MS, max_s=30.0)
        calls = await self._calls_per_block()
        rounds = ROUNDS[self._rigor]
        checked = secrets.randbelow(rounds)
        trial: Trial | None = None
        for number in range(rounds):
            await report(f"timing: round {number + 1} of {rounds}")
            kept = await self._round(number, calls, output_bytes if number == checked else None)
            trial = kept or trial
        if trial is None:
            raise AssertionError("one round is always checked")
        return self._result(trial), trial

    async def _prepare(self) -> int:
        facts = await self._referee.ask("time_facts")
        moved = max(1, int(facts["input_bytes"]) + int(facts["output_bytes"]))
        room = int(facts["free_bytes"]) // 4
        wanted = -(-3 * int(facts["l2_bytes"]) // moved)
        count = max(2, min(64, wanted, max(2, room // moved)))
        self._seeds = [new_seed() for _ in range(count)]
        with SharedFile("inbox") as inbox, SharedFile("outbox") as outbox:
            await self._referee.open_files(inbox, outbox)
            prepared = await self._referee.ask("time_prepare", seeds=self._seeds, offset=0)
            await self._open_candidate_files(inbox, outbox)
            await self._ask(self._candidate, "time_prepare", sets=prepared["sets"])
        return int(facts["output_bytes"])

    async def _calls_per_block(self) -> int:
        block = await self._ask(
            self._referee.worker, "time_block", calls=LEAST_CALLS, start=0, keep=None, out_offset=0
        )
        per_call_ms = max(1e-4, median(_block_ms(block, LEAST_CALLS)))
        wanted = round(BLOCK_MS[self._rigor] / per_call_ms)
        return max(LEAST_CALLS, min(MOST_CALLS, wanted))

    async def _round(self, number: int, calls: int, output_bytes: int | None) -> Trial | None:
        """Every contender once, eager twice for the noise floor, in random order."""
        order = ["eager", "candidate", "eager_again"]
        secrets.SystemRandom().shuffle(order)
        trial: Trial | None = None
        for name in order:
            start = (number * calls) % len(self._seeds)
            if name == "candidate" and output_bytes is not None:
                trial = await self._checked_block(start, calls, output_bytes)
                continue
            worker = self._candidate if name == "candidate" else self._referee.worker
            await self._block(name, worker, start, calls, None)
        return trial

    async def _checked_block(self, start: int, calls: int, output_bytes: int) -> Trial:
        """A block one of whose calls, unknown beforehand, is judged afterwards."""
        keep = secrets.randbelow(calls)
        planned = PlannedTrial("timed", self._seeds[(start + keep) % len(self._seeds)])
        with SharedFile("inbox") as inbox, SharedFile("outbox", output_bytes + (1 << 20)) as outbox:
            outbox.seal_size()
            await self._open_candidate_files(inbox, outbox)
            block = await self._block("candidate", self._candidate, start, calls, keep)
            await self._referee.open_files(inbox, outbox)
            await self._referee.prepare(_TIMED_TRIAL, "given", planned.seed)
            reply = await self._referee.judge(_TIMED_TRIAL, block.get("kept"), None)
        return judged(planned, reply, self._policy)

    async def _block(
        self, name: str, worker: WorkerProcess, start: int, calls: int, keep: int | None
    ) -> dict[str, Any]:
        began = time.perf_counter()
        block = await self._ask(
            worker, "time_block", calls=calls, start=start, keep=keep, out_offset=0
        )
        wall_ms = (time.perf_counter() - began) * 1e3
        samples = self._samples.setdefault(name, _Samples())
        calls_ms = _block_ms(block, calls)
        drained_ms = _block_ms(block, calls, "drained_ms")
        samples.blocks_ms.append(calls_ms)
        samples.tails_ms.append(
            median(late - call for call, late in zip(calls_ms, drained_ms, strict=True))
            if drained_ms != _IMPOSSIBLE * calls
            else _NEVER_MS
        )
        if keep is None:
            # A kept output is copied out inside the reply: that block's wall time is no bound.
            samples.walls_ms.append(wall_ms / calls)
        return block

    async def _ask(self, worker: WorkerProcess, op: str, **fields: Any) -> dict[str, Any]:
        return await worker.call(
            op, phase="timing", deadline_s=self._settings.timing_deadline_s, **fields
        )

    async def _open_candidate_files(self, inbox: SharedFile, outbox: SharedFile) -> None:
        await self._ask(self._candidate, "open_files", fds=(inbox.readable_fd, outbox.writable_fd))

    def _result(self, trial: Trial) -> Timing:
        eager, again = self._samples["eager"], self._samples["eager_again"]
        mine = self._samples["candidate"]
        noise = abs(paired_ratio(eager.medians(), again.medians()).ratio - 1)
        both = [
            (first + second) / 2
            for first, second in zip(eager.medians(), again.medians(), strict=True)
        ]
        pair = paired_ratio(both, mine.medians())
        contenders = (mine.time("candidate"), eager.time("eager"))
        reason = "" if trial.passed else "a timed call gave a wrong result"
        reason = reason or _disagreement(contenders)
        reason = reason or _unjoined(median(mine.tails_ms), median(eager.tails_ms))
        trusted: Literal["trusted", "untrusted"] = "untrusted" if reason else "trusted"
        return Timing(
            trust=trusted,
            trust_reason=reason
            or "the server's clock agrees and a timed call chosen at random was right",
            contenders=contenders,
            speedup_vs_eager=None if reason else pair.ratio,
            ci95_low=None if reason else pair.low,
            ci95_high=None if reason else pair.high,
            noise_percent=100 * noise,
            conclusion="untrusted" if reason else conclusion(pair, noise),
            rounds=len(mine.blocks_ms),
            input_sets=len(self._seeds),
            samples_ms={name: tuple(kept.blocks_ms) for name, kept in self._samples.items()},
        )


def _block_ms(block: dict[str, Any], calls: int, name: str = "ms") -> tuple[float, ...]:
    """The block's samples; the candidate's process wrote them, so they are checked."""
    samples: Sequence[Any] = block.get(name, ())
    kept = tuple(float(sample) for sample in samples if isinstance(sample, int | float))
    if len(kept) != calls or not all(0 < sample < 1e7 for sample in kept):
        # Impossible samples: let the outside clock call them untrusted.
        return _IMPOSSIBLE * calls
    return kept


def _disagreement(contenders: Sequence[ContenderTime]) -> str:
    """Why the two clocks cannot both be right, or nothing.

    Each call is waited for, so what the server's clock sees beyond the GPU time is the same for
    every contender: waiting, recording events, a share of one exchange of frames. The candidate's
    excess must be of the size that the reference, timed alike in the same rounds, shows.
    """
    mine, eager = contenders
    unexplained_ms = mine.wall_median_ms - 1.05 * mine.median_ms
    allowed_ms = HOST_MS + 1.5 * max(0.0, eager.wall_median_ms - eager.median_ms)
    if unexplained_ms > allowed_ms:
        return (
            f"it claims {mine.median_ms:.4f} ms a call, the server's clock says "
            f"{mine.wall_median_ms:.4f} ms"
        )
    return ""


def _unjoined(mine_ms: float, eager_ms: float) -> str:
    """Why the end of a call was not the end of its work, or nothing."""
    if mine_ms > 2 * max(0.0, eager_ms) + TAIL_MS:
        return (
            f"the device works on for {mine_ms:.4f} ms after the call's end: a stream of the "
            "candidate's own that the current one does not wait for"
        )
    return ""
