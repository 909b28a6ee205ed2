"""The table at the end of a replay."""

from __future__ import annotations

from egg_mcp.cli.replayer import Replay, Step

_HEADER = ("Problem", "tried", "wrong", "final verdict", "kernel", "eager", "speedup")
_UNTIMED_COLUMNS = 4


def table(replays: list[Replay]) -> str:
    """One row a Problem, then where its results lie."""
    rows = [_HEADER, *(_row(one) for one in replays)]
    if not any(step.speedup for one in replays for step in one.steps):
        rows = [row[:_UNTIMED_COLUMNS] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "",
        *(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ),
        "",
    ]
    lines.insert(2, "  ".join("-" * width for width in widths))
    for one in replays:
        places = ", ".join(str(file) for file in one.files)
        lines.append(f"{one.title}: session {one.session_id}; {places}")
    if any(step.verdict == "emulated_pass" for one in replays for step in one.steps):
        lines.append(
            "emulated_pass: values were checked under the Triton interpreter on the CPU. Nothing "
            "ran on a GPU and no speed was measured."
        )
    if not all(one.met for one in replays):
        lines.append("Some calls did not come to what the recording expects: see the marks above.")
    return "\n".join(lines)


def _row(replay: Replay) -> tuple[str, ...]:
    judged = [step for step in replay.steps if step.candidate and step.tool != "export_kernel"]
    final = next((step for step in reversed(judged) if step.tool == "verify_and_benchmark"), None)
    tried = [step for step in judged if step.tool != "verify_and_benchmark"]
    wrong = sum(1 for step in tried if "pass" not in step.verdict)
    return (
        replay.title,
        str(len(tried)),
        str(wrong),
        final.verdict if final else "none",
        _time(final, "candidate_ms"),
        _time(final, "eager_ms"),
        f"{final.speedup:.2f}x" if final and final.speedup else "not measured",
    )


def _time(step: Step | None, name: str) -> str:
    value: float | None = getattr(step, name) if step else None
    return f"{value:.4f} ms" if value is not None else "-"
