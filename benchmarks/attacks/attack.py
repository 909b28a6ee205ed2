"""Attack: one way out of the sandbox, as a candidate, and what outside would show that it worked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from egg_mcp.vocabulary.sandbox import PropertyName

if TYPE_CHECKING:
    from benchmarks.attacks.aftermath import Aftermath
    from benchmarks.attacks.sight import Sight

Place = Literal["import", "construct", "forward"]
Need = Literal["", "gpu only", "x86_64 only", "another address", "6 GiB of free memory"]

During = Callable[["Sight"], str]
After = Callable[["Aftermath"], str]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    What holds for every attack is looked at without being named here: secrets in anything that
    came out, arrivals at listeners, changed files and processes outside, survivors, and whether
    an honest candidate is still judged right afterwards.

    Attributes:
        name: in words with hyphens.
        tried: what it does, in words.
        code: statements, with all of `source.PRELUDE` in reach; what they raise is printed.
        place: where they run.
        during: looks at the box's processes from outside while they live; proof or nothing.
        after: looks at what is left when the box is gone; proof or nothing.
        next_code: the same for the candidate after it, which does not know what was planted.
        bare: whether it is also run with the sandbox off; not when that endangers the machine.
        needs: what this machine must have.
        watched: runs where the machine's memory is watched closely.
        result: what `forward` returns.
        breaks: the sandbox's promise that would be broken; empty for the verdict's own.
        known: why it may get through even the full box; empty where it must not.
    """

    name: str
    tried: str
    code: str
    place: Place = "import"
    during: During | None = None
    after: After | None = None
    next_code: str = ""
    bare: bool = True
    needs: Need = ""
    watched: bool = False
    result: str = "a + b"
    breaks: PropertyName | Literal[""] = ""
    known: str = ""
