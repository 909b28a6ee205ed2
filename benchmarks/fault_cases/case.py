"""Case: one fault, what it must be called, and what was seen of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from egg_mcp.vocabulary.fault import Fault

if TYPE_CHECKING:
    from benchmarks.fault_cases.bench import Bench

NOTHING = "nothing"
GPU_ONLY = "gpu only"
NEEDS_BOX = "needs a box with limits"

Need = Literal["", "gpu only", "needs a box with limits"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault.

    Attributes:
        got: status word and fault, `crashed/killed`; a hyphen for no fault.
        text: what the one who handed in the work is told.
        next_passed: whether the honest candidate after it was judged right.
        lost: what had to be made again, or is gone; `nothing`.
        wrong: anything else that must not be: processes left, work lost, a next step unsaid.
    """

    got: str
    text: str
    next_passed: bool
    lost: str = NOTHING
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One fault.

    Attributes:
        name: of the fault, in words with hyphens.
        expected: as `Outcome.got`; `pass` also stands for `emulated_pass`.
        inject: brings it about and looks what comes of it.
        says: must be in what the caller is told.
        needs: what this machine must have; empty where any will do.
    """

    name: str
    expected: str
    inject: Callable[[Bench], Awaitable[Outcome]]
    says: str = ""
    needs: Need = ""

    def judge(self, outcome: Outcome) -> str:
        """What is wrong with the outcome; empty when it is right."""
        found = [outcome.wrong] if outcome.wrong else []
        if outcome.got.replace("emulated_pass", "pass") != self.expected:
            found.append(f"expected {self.expected}")
        if self.says not in outcome.text:
            found.append(f"{self.says!r} is not said")
        if not outcome.next_passed:
            found.append("the next honest candidate did not pass")
        return "; ".join(found)


def unsaid_step(got: str, text: str) -> str:
    """Whether the fault's next step is missing from what the caller reads; empty when it is there."""
    fault = got.partition("/")[2]
    if fault == "-" or Fault(fault).next_step in text:
        return ""
    return "the next step is not said"
