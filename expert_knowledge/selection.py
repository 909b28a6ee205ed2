"""Selection: which guidelines fit a situation, in an order that never changes by chance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from egg_mcp.expert_knowledge.guideline import Guideline
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionPolicy

# One exact family outweighs one symptom, two symptoms outweigh it, and how well architecture
# and policy are named only orders what is otherwise equal.
_FAMILY_WEIGHT = 4
_SYMPTOM_WEIGHT = 3
_FIT_WEIGHT = 1

_TITLE_WEIGHT = 6
_NAME_WEIGHT = 4
_BODY_MENTIONS = 3
_TERM = re.compile(r"[a-z0-9_]+")


class Selected(NamedTuple):
    """A guideline and why it was chosen."""

    guideline: Guideline
    reason: str
    """One clause: `for softmax; the finding is register_spills`."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a session knows when it asks for guidelines."""

    families: tuple[OperatorFamily, ...]
    """What the Problem is made of."""
    arch: str | None
    """The target, as `sm_90`; None when not known: then no architecture is excluded."""
    precision: PrecisionPolicy
    """The session's policy."""
    symptoms: tuple[str, ...] = ()
    """What the findings say."""
    applied: tuple[str, ...] = ()
    """Ids of guidelines this session already followed."""

    def admits(self, guideline: Guideline) -> bool:
        """Whether family, architecture and policy all allow the guideline."""
        return (
            ("any" in guideline.families or bool(self._families(guideline)))
            and (self.arch is None or "any" in guideline.archs or self.arch in guideline.archs)
            and ("any" in guideline.precision or self.precision in guideline.precision)
        )

    def rank(self, guideline: Guideline) -> tuple[bool, int, str]:
        """Sorts the best first; what was already applied comes last."""
        score = (
            _FAMILY_WEIGHT * bool(self._families(guideline))
            + _SYMPTOM_WEIGHT * len(self._symptoms(guideline))
            + _FIT_WEIGHT * (self.arch in guideline.archs)
            + _FIT_WEIGHT * (self.precision in guideline.precision)
        )
        return (guideline.id in self.applied, -score, guideline.id)

    def reason(self, guideline: Guideline) -> str:
        """Why the guideline fits, as one clause."""
        parts = [f"for {_listed(self._families(guideline)) or 'any work'}"]
        symptoms = self._symptoms(guideline)
        if symptoms:
            parts.append(
                f"the finding{' is' if len(symptoms) == 1 else 's are'} {_listed(symptoms)}"
            )
        if self.arch in guideline.archs:
            parts.append(f"on {self.arch}")
        if self.precision in guideline.precision:
            parts.append(f"under {self.precision.value}")
        if guideline.id in self.applied:
            parts.append("already applied")
        return "; ".join(parts)

    def _families(self, guideline: Guideline) -> list[str]:
        return [family.value for family in self.families if family in guideline.families]

    def _symptoms(self, guideline: Guideline) -> list[str]:
        return [symptom for symptom in guideline.symptoms if symptom in self.symptoms]


def select(
    guidelines: Iterable[Guideline], situation: Situation, limit: int
) -> tuple[Selected, ...]:
    """The guidelines that fit the situation, best first."""
    fitting = sorted(filter(situation.admits, guidelines), key=situation.rank)
    return tuple(Selected(page, situation.reason(page)) for page in fitting[:limit])


def search(guidelines: Iterable[Guideline], query: str, limit: int) -> tuple[Guideline, ...]:
    """The guidelines that speak of the query's terms: most terms first, then most weight."""
    terms = sorted(set(_TERM.findall(query.lower())))
    found: list[tuple[int, int, str, Guideline]] = []
    for guideline in guidelines:
        weights = [_weight(guideline, term) for term in terms]
        matched = sum(weight > 0 for weight in weights)
        if matched:
            found.append((-matched, -sum(weights), guideline.id, guideline))
    return tuple(entry[-1] for entry in sorted(found, key=lambda entry: entry[:3])[:limit])


def _weight(guideline: Guideline, term: str) -> int:
    names = " ".join((guideline.id, *guideline.symptoms, *guideline.families)).lower()
    return (
        _TITLE_WEIGHT * bool(_mentions(guideline.title.lower(), term))
        + _NAME_WEIGHT * bool(_mentions(names, term))
        + min(_mentions(guideline.body.lower(), term), _BODY_MENTIONS)
    )


def _mentions(text: str, term: str) -> int:
    """How many words, or parts of a name joined by underscores, start with the term."""
    return len(re.findall(rf"(?<![a-z0-9]){re.escape(term)}", text))


def _listed(words: list[str]) -> str:
    return " and ".join(words)
