"""OwnWord: for the few calls that leave no mark outside, what the candidate itself says.

It is our own code, so it has no reason to lie; a proof of this kind says what it is.
"""

from __future__ import annotations

from benchmarks.attacks.aftermath import Aftermath


def says_it_worked(aftermath: Aftermath) -> str:
    """It printed that the kernel took the call."""
    word = f"{aftermath.world['label']} reached"
    return "the kernel took the call (by its own word)" if word in aftermath.printed else ""
