"""The report of a session, in Markdown, for people."""

from __future__ import annotations

from egg_mcp.session.brief import device_in_words, problem_in_words, shortened
from egg_mcp.session.standing import Attempt, Standing
from egg_mcp.vocabulary.session import SessionRecord

_CHANGE = 100
_REASON = 300


def session_report(session: SessionRecord, standing: Standing, champion_source: str | None) -> str:
    """The whole session on one page: Problem, stages, trajectory, champion, how to reproduce."""
    screening = session.screening
    device = (
        device_in_words(screening.device) if screening and screening.device else "not known yet"
    )
    lines = [
        f"# {session.title}",
        "",
        (
            f"Session `{session.session_id}`, opened {session.created_at}, "
            f"precision policy `{session.precision.value}`."
        ),
        "",
        f"* Problem: {problem_in_words(session.title, screening)}",
        f"* Device: {device}",
        "",
        "## Stages",
        "",
        *(
            f"* {entry.at} {entry.stage.value}: {shortened(entry.reason, _REASON)}"
            for entry in session.stages_entered
        ),
        "",
        "## Trajectory",
        "",
        "| # | parent | stage | verdict | vs eager | change |",
        "|---|---|---|---|---|---|",
        *(_row(attempt) for attempt in standing.attempts),
        "",
    ]
    if standing.champion is not None:
        lines += _champion(standing.champion, champion_source)
    return "\n".join(lines)


def _row(attempt: Attempt) -> str:
    candidate = attempt.candidate
    verdict = attempt.verdict.status.value if attempt.verdict else "not judged"
    speed = f"{attempt.speedup:.2f}x" if attempt.speedup else "-"
    change = shortened(candidate.rationale or "-", _CHANGE).replace("|", "\\|")
    parent = candidate.parent or "-"
    return (
        f"| {candidate.number} | {parent} | {candidate.stage.value} | {verdict} | {speed} "
        f"| {change} |"
    )


def _champion(champion: Attempt, source: str | None) -> list[str]:
    verdict = champion.verdict
    lines = ["## Champion", "", f"Candidate {champion.candidate.number}."]
    if verdict is not None:
        lines += [
            "",
            f"{verdict.status.value} at {verdict.rigor.value} rigor: {verdict.explanation}",
        ]
        if verdict.timing is None:
            lines += ["", f"Not timed: {verdict.timing_reason}"]
        lines += ["", *(f"* {flag}" for flag in verdict.flags)]
    if source is not None:
        fence = "`" * max(3, _longest_run_of_ticks(source) + 1)
        lines += ["", f"{fence}python", source.rstrip(), fence]
    return [*lines, ""]


def _longest_run_of_ticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
