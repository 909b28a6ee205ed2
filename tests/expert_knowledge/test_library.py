"""The library reads every page, finds, chooses and searches in an order that never varies."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from egg_mcp.errors import KnowledgeError, UnknownGuideline
from egg_mcp.expert_knowledge.guideline import Guideline
from egg_mcp.expert_knowledge.library import Library, load_library
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.stage import Stage

PAGE = """\
---
id: {id}
title: A title
stage: {stage}
families: [any]
archs: [any]
precision: [any]
symptoms: []
preconditions: [always]
effect: not measured here
failure_modes: []
anti_patterns: []
sources: [https://example.org]
checked_on: 2026-12-01
---

The rule.

```python
assert True
```
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return load_library()


def page(page_id: str, **changes: Any) -> Guideline:
    values: dict[str, Any] = {
        "id": page_id,
        "title": "A title",
        "stage": Stage.TUNE_TILING,
        "families": ("any",),
        "archs": ("any",),
        "precision": ("any",),
        "symptoms": (),
        "preconditions": ("always",),
        "effect": "not measured here",
        "failure_modes": (),
        "anti_patterns": (),
        "sources": ("https://example.org",),
        "checked_on": date(2026, 12, 1),
        "body": "The rule.",
    }
    return Guideline(**(values | changes))


def chosen(pages: list[Guideline], **changes: Any) -> list[str]:
    situation: dict[str, Any] = {
        "families": (OperatorFamily.SOFTMAX,),
        "arch": "sm_90",
        "precision": PrecisionPolicy.STRICT,
    }
    selected = Library(tuple(pages)).select(Stage.TUNE_TILING, **(situation | changes))
    return [guideline.id for guideline, _ in selected]


class TestThePages:
    def test_every_stage_has_four_pages_or_more(self, library: Library) -> None:
        assert library.stages() == tuple(Stage)
        assert all(len(library.of_stage(stage)) >= 4 for stage in Stage)

    def test_the_common_families_are_covered(self, library: Library) -> None:
        covered = {family for page in library.guidelines for family in page.families}
        wanted = "gemm softmax normalization reduction elementwise convolution attention"
        assert covered.issuperset(wanted.split())

    def test_sources_are_public(self, library: Library) -> None:
        for guideline in library.guidelines:
            for source in guideline.sources:
                is_repository = "/" in source.split("@")[0] and "@" in source
                assert source.startswith(("https://", "http://")) or is_repository

    def test_a_symptom_is_spelled_alike_everywhere(self, library: Library) -> None:
        symptoms = {symptom for page in library.guidelines for symptom in page.symptoms}
        assert not {symptom for symptom in symptoms if symptom + "s" in symptoms}

    def test_loading_imports_no_torch_and_no_triton(self) -> None:
        code = (
            "import sys; from egg_mcp.expert_knowledge.library import load_library; "
            "load_library(); sys.exit(bool({'torch', 'triton', 'numpy'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestLoading:
    def write(self, root: Path, folder: str, page_id: str, stage: str) -> None:
        (root / folder).mkdir(exist_ok=True)
        text = PAGE.format(id=page_id, stage=stage)
        (root / folder / f"{page_id}.md").write_text(text, encoding="utf-8")

    def test_pages_come_in_the_order_of_stages_then_ids(self, tmp_path: Path) -> None:
        self.write(tmp_path, "tune-tiling", "b", "tune_tiling")
        self.write(tmp_path, "tune-tiling", "a", "tune_tiling")
        self.write(tmp_path, "design-algorithm", "z", "design_algorithm")
        (tmp_path / "library.py").write_text("", encoding="utf-8")
        (tmp_path / "__pycache__").mkdir()
        assert [page.id for page in load_library(tmp_path).guidelines] == ["z", "a", "b"]

    def test_an_id_used_twice_is_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path, "design-algorithm", "same", "design_algorithm")
        self.write(tmp_path, "tune-tiling", "same", "tune_tiling")
        with pytest.raises(KnowledgeError) as caught:
            load_library(tmp_path)
        assert str(caught.value) == (
            "tune-tiling/same.md:2: id 'same' is taken by a page in 'design-algorithm'"
        )

    def test_a_page_in_a_folder_of_no_stage_is_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path, "tune-loops", "a", "tune_tiling")
        with pytest.raises(KnowledgeError, match=r"^tune-loops/a\.md:1: no stage has the folder"):
            load_library(tmp_path)

    def test_a_broken_page_is_named(self, tmp_path: Path) -> None:
        self.write(tmp_path, "tune-tiling", "a", "tune_loops")
        with pytest.raises(KnowledgeError, match=r"^tune-tiling/a\.md:4: "):
            load_library(tmp_path)


class TestGetting:
    def test_a_guideline_is_found_by_stage_and_id(self, library: Library) -> None:
        for guideline in library.guidelines:
            assert library.get(guideline.stage, guideline.id) is guideline

    def test_an_unknown_id_names_the_closest_and_the_call(self, library: Library) -> None:
        with pytest.raises(UnknownGuideline) as caught:
            library.get(Stage.TUNE_TILING, "budget-accumulator")
        assert "Closest: 'budget-the-accumulator'" in str(caught.value)
        assert "get_guidelines(stage='tune_tiling')" in str(caught.value)

    def test_an_id_of_another_stage_names_that_stage(self, library: Library) -> None:
        with pytest.raises(UnknownGuideline, match="It stands in stage 'tune_tiling'"):
            library.get(Stage.OPTIMIZE_MEMORY, "budget-the-accumulator")

    def test_an_id_like_no_other_still_names_the_call(self) -> None:
        with pytest.raises(UnknownGuideline, match=r"'q' in stage 'tune_tiling'\. List"):
            Library(()).get(Stage.TUNE_TILING, "q")


class TestSelecting:
    def test_an_exact_family_outweighs_one_symptom(self) -> None:
        pages = [page("a", symptoms=("spills",)), page("b", families=("softmax",)), page("c")]
        assert chosen(pages, symptoms=("spills",)) == ["b", "a", "c"]

    def test_two_symptoms_outweigh_a_family(self) -> None:
        pages = [page("a", families=("softmax",)), page("b", symptoms=("spills", "latency"))]
        assert chosen(pages, symptoms=("latency", "spills")) == ["b", "a"]

    def test_a_symptom_outweighs_architecture_and_policy(self) -> None:
        pages = [
            page("a", archs=("sm_90",), precision=("strict",)),
            page("b", symptoms=("spills",)),
        ]
        assert chosen(pages, symptoms=("spills",)) == ["b", "a"]

    def test_an_exact_architecture_or_policy_outranks_any(self) -> None:
        pages = [page("a"), page("b", archs=("sm_90",)), page("c", precision=("strict",))]
        assert chosen(pages) == ["b", "c", "a"]

    def test_what_does_not_apply_is_left_out(self) -> None:
        pages = [
            page("a", families=("gemm",)),
            page("b", archs=("sm_80",)),
            page("c", precision=("lowp_ok",)),
            page("d", stage=Stage.OPTIMIZE_MEMORY),
            page("e"),
        ]
        assert chosen(pages) == ["e"]

    def test_an_unknown_architecture_excludes_none(self) -> None:
        assert chosen([page("a", archs=("sm_80",)), page("b")], arch=None) == ["a", "b"]

    def test_what_was_applied_comes_last(self) -> None:
        pages = [page("a", families=("softmax",)), page("b")]
        assert chosen(pages, applied=("a",)) == ["b", "a"]

    def test_equals_come_by_id_and_the_limit_cuts(self) -> None:
        assert chosen([page(name) for name in "dbca"], limit=3) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({}, "for any work"),
            ({"families": ("gemm", "softmax")}, "for softmax"),
            (
                {"families": ("softmax",), "symptoms": ("register_spills",)},
                "for softmax; the finding is register_spills",
            ),
            (
                {"symptoms": ("latency", "register_spills"), "archs": ("sm_90",)},
                "for any work; the findings are latency and register_spills; on sm_90",
            ),
            ({"precision": ("strict",)}, "for any work; under strict"),
            ({"id": "used"}, "for any work; already applied"),
        ],
    )
    def test_the_reason_says_what_matched(self, changes: dict[str, Any], reason: str) -> None:
        (selected,) = Library((page("x", **{"id": "x"} | changes),)).select(
            Stage.TUNE_TILING,
            (OperatorFamily.SOFTMAX,),
            "sm_90",
            PrecisionPolicy.STRICT,
            symptoms=("register_spills", "latency"),
            applied=("used",),
        )
        assert selected.reason == reason

    @pytest.mark.parametrize(
        ("stage", "family", "symptom", "wanted"),
        [
            ("design_algorithm", "gemm", "no_tensor_core", "emulate-fp32-gemm"),
            ("design_algorithm", "softmax", "register_spills", "pick-softmax-structure"),
            ("design_algorithm", "normalization", "extra_traffic", "normalize-in-one-pass"),
            ("tune_parallel_mapping", "gemm", "low_parallelism", "split-k-when-tiles-are-few"),
            ("tune_parallel_mapping", "gemm", "l2_misses", "group-programs-for-l2"),
            ("tune_tiling", "gemm", "register_spills", "budget-the-accumulator"),
            ("tune_tiling", "reduction", "uncoalesced_load", "tile-strided-reductions"),
            ("optimize_memory", "reduction", "memory_latency", "pipeline-loops-by-range"),
            ("optimize_memory", "layout", "uncoalesced_load", "run-lanes-along-memory"),
            ("verify_and_benchmark", "gemm", "precision_error", "name-the-dot-precision"),
        ],
    )
    def test_the_right_page_comes_first(
        self, library: Library, stage: str, family: str, symptom: str, wanted: str
    ) -> None:
        selected = library.select(
            Stage(stage),
            (OperatorFamily(family),),
            "sm_90",
            PrecisionPolicy.STRICT,
            symptoms=(symptom,),
        )
        assert selected[0].guideline.id == wanted


class TestSearching:
    def test_a_page_that_has_all_terms_comes_before_one_that_repeats_one(self) -> None:
        pages = (
            page("a", body="spills spills spills"),
            page("b", body="the loop spills"),
            page("c", title="Loop"),
        )
        assert [found.id for found in Library(pages).search("loop spills")] == ["b", "c", "a"]

    def test_title_counts_more_than_names_and_names_more_than_body(self) -> None:
        pages = (page("a", body="latency"), page("b", symptoms=("latency",)))
        titled = page("c", title="Hide latency")
        found = Library((*pages, titled)).search("Latency")
        assert [guideline.id for guideline in found] == ["c", "b", "a"]

    def test_the_start_of_a_word_is_enough_but_not_its_end(self) -> None:
        pages = (page("a", symptoms=("register_spills",)), page("b", body="respill"))
        assert [found.id for found in Library(pages).search("spill")] == ["a"]

    def test_nothing_matches_nothing(self, library: Library) -> None:
        assert library.search("") == ()
        assert library.search("(?!) zzzz") == ()

    def test_stage_and_limit_narrow_the_result(self, library: Library) -> None:
        found = library.search("softmax", stage=Stage.TUNE_TILING, limit=2)
        assert 1 <= len(found) <= 2
        assert all(guideline.stage is Stage.TUNE_TILING for guideline in found)

    @pytest.mark.parametrize(
        ("query", "wanted"),
        [
            ("online softmax", "pick-softmax-structure"),
            ("bf16x3", "emulate-fp32-gemm"),
            ("block pointers", "replace-removed-pointer-forms"),
            ("int64 overflow", "widen-offsets-to-int64"),
            ("atomics relaxed", "relax-atomics"),
        ],
    )
    def test_a_word_from_practice_finds_its_page(
        self, library: Library, query: str, wanted: str
    ) -> None:
        assert wanted in [guideline.id for guideline in library.search(query, limit=2)]
