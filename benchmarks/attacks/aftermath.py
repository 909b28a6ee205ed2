"""Aftermath: what is left of an attack when its candidate is gone."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.attacks.source import World
from egg_mcp.vocabulary.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Aftermath:
    """After the candidate.

    Attributes:
        verdict: its own; None where the executor raised.
        raised: what the executor raised, in words.
        printed: all that was kept of what it printed.
        next_printed: the same of the candidate after it.
        swelled_bytes: by how much the server's memory grew.
        new_files: descriptors that the server did not hold before.
        world: what the attack was told.
    """

    verdict: Verdict | None
    raised: str
    printed: str
    next_printed: str
    swelled_bytes: int
    new_files: tuple[str, ...]
    world: World


_MOST_SWELLING = 128 << 20


def was_believed(aftermath: Aftermath) -> str:
    """A wrong candidate was judged right."""
    verdict = aftermath.verdict
    return "a wrong result was judged right" if verdict and verdict.status.is_correct else ""


def was_not_blamed(aftermath: Aftermath) -> str:
    """The candidate ended itself, and that is not what was said."""
    if aftermath.verdict is None:
        return f"no verdict: {aftermath.raised}"
    fault = aftermath.verdict.fault
    if aftermath.verdict.status.is_correct or (fault is not None and not fault.is_candidates):
        return f"it was said to be {aftermath.verdict.status.value}/{fault}"
    return ""


def others_were_blamed(aftermath: Aftermath) -> str:
    """The reference or the machine was said to have failed."""
    if aftermath.verdict is None:
        return f"no verdict: {aftermath.raised}"
    status, fault = aftermath.verdict.status.value, aftermath.verdict.fault
    if status in ("reference_failed", "infra_error", "task_degenerate"):
        return f"it was said to be {status}: {aftermath.verdict.explanation[:120]}"
    return f"it was put down to {fault}" if fault is not None and not fault.is_candidates else ""


def was_kept_whole(aftermath: Aftermath) -> str:
    """More of what it printed was kept than is allowed."""
    kept = len(aftermath.printed.encode("utf-8", "replace"))
    most = int(str(aftermath.world["most_output"]))
    return f"{kept} bytes were kept of what it printed" if kept > most + (most >> 2) else ""


def has_swelled_server(aftermath: Aftermath) -> str:
    """The server's memory grew by more than one frame explains."""
    grown = aftermath.swelled_bytes
    return f"the server grew by {grown >> 20} MiB" if grown > _MOST_SWELLING else ""


def has_handed_over_files(aftermath: Aftermath) -> str:
    """The server holds a descriptor that the candidate sent it."""
    label = str(aftermath.world["label"])
    found = [name for name in aftermath.new_files if label in name]
    return f"the server holds {found[0]}" if found else ""
