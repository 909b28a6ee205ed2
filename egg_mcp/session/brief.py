"""StageBrief: what a stage hands to the client's model before it writes code."""

from __future__ import annotations

from egg_mcp.session.standing import Attempt, Standing
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.problem import Screening, ValueFacts
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import CHARTERS, SUBMITTING_STAGES, Stage

MOST_BYTES = 8_000
"""A brief stays under this as JSON, however many attempts there were."""
_MOST_ATTEMPTS = 12
_MOST_LESSONS = 8
_LINE = 160

_SUBMIT = (
    'Call {stage}(session_id="{session_id}", kernel_code=<source that defines class ModelNew '
    "with Model's constructor and state_dict names>, parent={parent}, rationale=<what you changed "
    "and why>, guidelines_applied=[<ids>])."
)


class GuidelineLine(Record):
    """One guideline, short; `get_guidelines` has the whole page."""

    id: str
    """For `get_guidelines(guideline_id=...)`."""
    title: str
    """Its title."""
    rule: str
    """What to do, in a sentence or two."""
    why: str
    """Why it was chosen here."""


class AttemptLine(Record):
    """One attempt in a line."""

    candidate: int
    """Its number."""
    parent: int | None
    """What it was made from."""
    change: str
    """The client's rationale, shortened."""
    verdict: str
    """Its status word, `not judged yet` while it runs."""
    speedup_vs_eager: float | None
    """None where not measured."""
    finding: str
    """What to take from it."""


class StageBrief(Record):
    """All a fresh client needs to go on with this stage."""

    objective: str
    """What this stage is for."""
    problem: str
    """The Problem in numbers."""
    device: str
    """What code runs on and what that means for the verdict."""
    precision: str
    """The policy and what it allows."""
    decided: tuple[str, ...]
    """What earlier stages settled, one line each."""
    champions: tuple[AttemptLine, ...]
    """The pool, best first: parents worth taking."""
    attempts: tuple[AttemptLine, ...]
    """What was tried in this stage, newest last."""
    lessons: tuple[str, ...]
    """Dead ends of other stages: do not repeat them."""
    guidelines: tuple[GuidelineLine, ...]
    """Chosen for this Problem and stage."""
    may_change: tuple[str, ...]
    """What a candidate of this stage may change."""
    must_not_change: tuple[str, ...]
    """What it must leave as it is."""
    how_to_submit: str
    """The exact call."""
    stop_when: str
    """When to go on."""
    left_out: int
    """Attempts of this stage that are not listed; `session_status` lists all."""


_POLICY_WORDS = {
    "strict": "strict: an error like the reference's own. For float32 dot products pass "
    'input_precision "ieee", "tf32x3" or "bf16x3"; plain TF32 fails.',
    "tf32_ok": "tf32_ok: an error as if inputs and weights were rounded to TF32.",
    "lowp_ok": "lowp_ok: an error as if inputs and weights were rounded to bfloat16.",
}


def build_brief(
    session: SessionRecord,
    stage: Stage,
    standing: Standing,
    device: DeviceFacts,
    guidelines: tuple[GuidelineLine, ...],
) -> StageBrief:
    """The brief of a stage, bounded by dropping the oldest attempts and lessons first."""
    attempts = standing.of_stage(stage)
    lessons = tuple(
        _lesson(attempt)
        for attempt in standing.attempts
        if attempt.candidate.stage is not stage and _is_dead_end(attempt)
    )
    shown, told, pages = _MOST_ATTEMPTS, _MOST_LESSONS, len(guidelines)
    while True:
        brief = _assemble(
            session,
            stage,
            standing,
            device,
            guidelines[:pages],
            attempts[len(attempts) - min(shown, len(attempts)) :],
            lessons[len(lessons) - min(told, len(lessons)) :],
        )
        if len(brief.model_dump_json().encode()) <= MOST_BYTES:
            return brief
        if told > 2:
            told -= 2
        elif shown > 3:
            shown -= 1
        elif pages > 1:
            pages -= 1
        else:
            return brief


def _assemble(
    session: SessionRecord,
    stage: Stage,
    standing: Standing,
    device: DeviceFacts,
    guidelines: tuple[GuidelineLine, ...],
    attempts: tuple[Attempt, ...],
    lessons: tuple[str, ...],
) -> StageBrief:
    charter = CHARTERS[stage]
    champion = standing.champion
    parent = champion.candidate.number if champion else "null"
    return StageBrief(
        objective=charter.objective,
        problem=problem_in_words(session.title, session.screening),
        device=device_in_words(device),
        precision=_POLICY_WORDS[session.precision.value],
        decided=_decided(stage, standing),
        champions=tuple(attempt_line(attempt) for attempt in standing.champions),
        attempts=tuple(attempt_line(attempt) for attempt in attempts),
        lessons=lessons,
        guidelines=guidelines,
        may_change=charter.may_change,
        must_not_change=charter.must_not_change,
        how_to_submit=_SUBMIT.format(
            stage=stage.value, session_id=session.session_id, parent=parent
        )
        if stage in SUBMITTING_STAGES
        else f'Call {stage.value}(session_id="{session.session_id}").',
        stop_when=charter.stop_when,
        left_out=len(standing.of_stage(stage)) - len(attempts),
    )


def attempt_line(attempt: Attempt) -> AttemptLine:
    """The attempt in a line."""
    candidate, verdict = attempt.candidate, attempt.verdict
    return AttemptLine(
        candidate=candidate.number,
        parent=candidate.parent,
        change=shortened(candidate.rationale or "no rationale given", _LINE),
        verdict=verdict.status.value if verdict else "not judged yet",
        speedup_vs_eager=round(attempt.speedup, 3) if attempt.speedup else None,
        finding=_finding(attempt),
    )


def problem_in_words(title: str, screening: Screening | None) -> str:
    """The Problem in a line of numbers."""
    if screening is None or not screening.outputs:
        return f"{title} (the reference has not been run yet)"
    parts = [
        title,
        "inputs " + ", ".join(_value(value) for value in screening.inputs[:6]),
        "outputs " + ", ".join(_value(value) for value in screening.outputs[:6]),
    ]
    if screening.parameter_count:
        parts.append(f"{screening.parameter_count} parameters")
    if screening.families:
        parts.append("families " + ", ".join(screening.families))
    if screening.flops:
        parts.append(f"{screening.flops / 1e9:.3g} GFLOP")
    if screening.least_bytes:
        parts.append(f"at least {screening.least_bytes / 1e6:.4g} MB to move")
    return "; ".join(parts)


def device_in_words(device: DeviceFacts) -> str:
    """The device, and what running on it means."""
    if device.kind == "emulated":
        return (
            f"{device.name}, torch {device.torch}, triton {device.triton}: no GPU here. Verdicts "
            "say `emulated_pass` at best, no speed is measured, and the newest correct candidate "
            "leads the pool."
        )
    return (
        f"{device.name} ({device.arch}), {device.multiprocessors} multiprocessors, "
        f"{(device.shared_memory_per_block_bytes or 0) // 1024} KB shared memory a block, "
        f"{(device.l2_bytes or 0) // 1_000_000} MB L2, torch {device.torch}, "
        f"triton {device.triton}"
    )


def shortened(text: str, limit: int) -> str:
    r"""The text on one line, cut to the limit.

    >>> shortened("a  b\nc", 4)
    'a b…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _value(value: ValueFacts) -> str:
    if value.shape is None:
        return value.kind
    return f"{value.dtype}{list(value.shape)}"


def _decided(stage: Stage, standing: Standing) -> tuple[str, ...]:
    lines: list[str] = []
    for earlier in Stage:
        if earlier is stage:
            break
        correct = [attempt for attempt in standing.of_stage(earlier) if attempt.is_correct]
        best = next((one for one in standing.champions if one in correct), None)
        best = best or (correct[-1] if correct else None)
        if best is not None:
            reason = shortened(best.candidate.rationale or "no reason given", _LINE)
            lines.append(f"{earlier.value}: candidate {best.candidate.number}: {reason}")
    return tuple(lines)


def _is_dead_end(attempt: Attempt) -> bool:
    return attempt.verdict is not None and not attempt.is_correct


def _lesson(attempt: Attempt) -> str:
    change = shortened(attempt.candidate.rationale or "no rationale", 80)
    return f"candidate {attempt.candidate.number} ({change}): {_finding(attempt)}"


def _finding(attempt: Attempt) -> str:
    verdict = attempt.verdict
    if verdict is None:
        return "its job has not finished"
    if not verdict.status.is_correct:
        return shortened(verdict.likely_cause or verdict.explanation, _LINE)
    if attempt.timing is None:
        return shortened(verdict.timing_reason or "timing not trusted", _LINE)
    return (
        f"{attempt.timing.conclusion} than eager"
        if attempt.timing.conclusion
        in (
            "faster",
            "slower",
        )
        else attempt.timing.conclusion
    )
