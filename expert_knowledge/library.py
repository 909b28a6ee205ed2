"""Library: all guidelines, read once from the pages beside this module."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from egg_mcp.errors import KnowledgeError, UnknownGuideline
from egg_mcp.expert_knowledge.guideline import Guideline, parse_guideline, stage_folder
from egg_mcp.expert_knowledge.selection import Selected, Situation, search, select
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.stage import Stage


@dataclass(frozen=True, slots=True)
class Library:
    """All guidelines, in the order of the stages, then of their ids."""

    guidelines: tuple[Guideline, ...]

    def stages(self) -> tuple[Stage, ...]:
        """The stages that have guidelines, in order."""
        return tuple(stage for stage in Stage if self.of_stage(stage))

    def of_stage(self, stage: Stage) -> tuple[Guideline, ...]:
        """The guidelines of one stage, by id."""
        return tuple(page for page in self.guidelines if page.stage is stage)

    def get(self, stage: Stage, guideline_id: str) -> Guideline:
        """One guideline.

        Raises:
            UnknownGuideline: the stage has none of that id; the message names the closest.
        """
        for page in self.of_stage(stage):
            if page.id == guideline_id:
                return page
        raise UnknownGuideline(self._unknown(stage, guideline_id))

    def select(
        self,
        stage: Stage,
        families: tuple[OperatorFamily, ...],
        arch: str | None,
        precision: PrecisionPolicy,
        symptoms: tuple[str, ...] = (),
        applied: tuple[str, ...] = (),
        limit: int = 6,
    ) -> tuple[Selected, ...]:
        """The guidelines of a stage that fit a situation, best first.

        Args:
            stage: whose guidelines.
            families: what the Problem is made of.
            arch: the target, as `sm_90`; None when not known: then none is excluded.
            precision: the session's policy.
            symptoms: what the findings say, as `register_spills`.
            applied: ids already followed; they come last.
            limit: how many at most.
        """
        situation = Situation(families, arch, precision, symptoms, applied)
        return select(self.of_stage(stage), situation, limit)

    def search(
        self, query: str, stage: Stage | None = None, limit: int = 10
    ) -> tuple[Guideline, ...]:
        """The guidelines that speak of the query's words, best first."""
        return search(self.guidelines if stage is None else self.of_stage(stage), query, limit)

    def _unknown(self, stage: Stage, guideline_id: str) -> str:
        message = f"No guideline {guideline_id!r} in stage {stage.value!r}."
        elsewhere = [page.stage for page in self.guidelines if page.id == guideline_id]
        if elsewhere:
            return f"{message} It stands in stage {elsewhere[0].value!r}: use that stage."
        ids = [page.id for page in self.of_stage(stage)]
        closest = difflib.get_close_matches(guideline_id, ids, n=3, cutoff=0.4)
        if closest:
            message += f" Closest: {', '.join(map(repr, closest))}."
        return f"{message} List all with get_guidelines(stage={stage.value!r})."


def load_library(root: Traversable | None = None) -> Library:
    """Read every page.

    Args:
        root: the folder that holds the stage folders; the installed package by default.

    Raises:
        KnowledgeError: a page breaks the format; the message starts with `path:line:`.
    """
    root = root if root is not None else files("egg_mcp.expert_knowledge")
    found: dict[str, Guideline] = {}
    for path, text in _pages(root):
        page = parse_guideline(text, path)
        if page.id in found:
            line = 1 + next(at for at, row in enumerate(text.split("\n")) if row.startswith("id:"))
            other = stage_folder(found[page.id].stage)
            raise KnowledgeError(f"{path}:{line}: id {page.id!r} is taken by a page in {other!r}")
        found[page.id] = page
    return Library(tuple(found.values()))


def _pages(root: Traversable) -> Iterator[tuple[str, str]]:
    """Path and text of every page, in the order of the stages, then of the names."""
    folders = [stage_folder(stage) for stage in Stage]
    there = {entry.name: entry for entry in root.iterdir() if entry.is_dir()}
    for name in [*folders, *sorted(set(there) - set(folders))]:
        if name not in there:
            continue
        pages = [entry for entry in there[name].iterdir() if entry.name.endswith(".md")]
        for page in sorted(pages, key=lambda entry: entry.name):
            path = f"{name}/{page.name}"
            if name not in folders:
                raise KnowledgeError(f"{path}:1: no stage has the folder {name!r}")
            yield path, page.read_text(encoding="utf-8")
