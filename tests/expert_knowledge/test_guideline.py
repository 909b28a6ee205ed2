"""A page is read as it stands, and each way to break the format is refused with its line."""

from __future__ import annotations

from datetime import date

import pytest

from egg_mcp.errors import KnowledgeError
from egg_mcp.expert_knowledge.guideline import find_fences, parse_guideline, stage_folder
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.stage import Stage

PATH = "tune-tiling/halve-the-tile.md"

PAGE = """\
---
id: halve-the-tile
title: Halve the tile
stage: tune_tiling
families: [gemm, any]
archs: [any, sm_90]
precision: [strict]
symptoms: [register_spills]
preconditions:
  - The kernel spills.
effect: not measured here
failure_modes: []
anti_patterns:
  - A larger tile.
sources:
  - https://example.org/page
  - owner/repo@0123abc docs/page.md
checked_on: 2026-12-01
---

Halve the tile
when it spills.

**Why.** Registers end.

```python
assert True
```
"""


def refused(page: str, path: str = PATH) -> str:
    with pytest.raises(KnowledgeError) as caught:
        parse_guideline(page, path)
    return str(caught.value)


def test_a_page_is_read_as_it_stands() -> None:
    guideline = parse_guideline(PAGE, PATH)
    assert guideline.id == "halve-the-tile"
    assert guideline.stage is Stage.TUNE_TILING
    assert guideline.families == (OperatorFamily.GEMM, "any")
    assert guideline.archs == ("any", "sm_90")
    assert guideline.precision == (PrecisionPolicy.STRICT,)
    assert guideline.symptoms == ("register_spills",)
    assert guideline.failure_modes == ()
    assert guideline.sources[1] == "owner/repo@0123abc docs/page.md"
    assert guideline.checked_on == date(2026, 12, 1)
    assert guideline.body.startswith("Halve the tile\n")


def test_the_rule_is_the_first_paragraph_on_one_line() -> None:
    assert parse_guideline(PAGE, PATH).rule == "Halve the tile when it spills."


def test_fences_know_their_line_in_the_page() -> None:
    (fence,) = find_fences(PAGE)
    assert PAGE.split("\n")[fence.line - 1] == "assert True"
    assert (fence.info, fence.code) == ("python", "assert True\n")


def test_a_stage_folder_is_the_stage_with_hyphens() -> None:
    assert [stage_folder(stage) for stage in Stage][:2] == [
        "design-algorithm",
        "tune-parallel-mapping",
    ]


def test_code_does_not_count_as_words_of_the_body() -> None:
    long_code = PAGE.replace("assert True", "assert True\n" + "x = 1  # word word word\n" * 200)
    assert parse_guideline(long_code, PATH).id == "halve-the-tile"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("---\nid", "id", 1, "must start with a '---' line"),
        ("2026-12-01\n---", "2026-12-01", 1, "no closing '---' line"),
        ("title: Halve", "title: Halve: twice", 3, "not YAML"),
        ("checked_on: 2026-12-01", "checked_on: 2026-13-01", 2, "not YAML"),
        ("title: Halve the tile\n", "title: a\ntitle: b\n", 4, "key 'title' stands twice"),
        ("effect: not", "effects: not", 11, "unknown key 'effects'"),
        ("effect: not measured here\n", "", 1, "missing keys: effect"),
        ("stage: tune_tiling", "stage: tune_loops", 4, "unknown stage 'tune_loops'"),
        ("stage: tune_tiling", "stage: optimize_memory", 4, "belongs in the folder"),
        ("[gemm, any]", "[gemm, matmul]", 5, "unknown word 'matmul' in families"),
        ("[strict]", "[exact]", 7, "unknown word 'exact' in precision"),
        ("[any, sm_90]", "[hopper]", 6, "bad entry 'hopper' in archs"),
        ("[register_spills]", "[Register spills]", 8, "bad entry 'Register spills' in symptoms"),
        ("[register_spills]", "register_spills", 8, "symptoms must be a list"),
        ("id: halve-the-tile", "id: halve", 2, "must be the file's name, 'halve-the-tile'"),
        ("https://example.org/page", "a book", 15, "bad entry 'a book' in sources"),
        (
            "sources:\n  - https://example.org/page\n  - owner/repo@0123abc docs/page.md\n",
            "sources: []\n",
            15,
            "sources: Tuple should have at least 1 item",
        ),
        (
            "preconditions:\n  - The kernel spills.\n",
            "preconditions: []\n",
            9,
            "preconditions: Tuple should have at least 1 item",
        ),
        ("checked_on: 2026-12-01", "checked_on: soon", 18, "checked_on: Input should be"),
        ("title: Halve the tile", "title: 7", 3, "title: Input should be a valid string"),
        ("Registers end.", "word " * 251, 21, "at most 250"),
        ("when it spills.", "x" * 300, 21, "the first paragraph is over 300 characters"),
        ("Halve the tile\nwhen", "# Heading\nwhen", 21, "must start with the rule"),
        ("assert True\n```", "assert True\n", 21, "a code fence is not closed"),
        ("```python", "```text", 21, "exactly one ```python example is required, found 0"),
        (
            "```python\nassert True\n```\n",
            "```python\n```\n\n```python\n```\n",
            21,
            "exactly one ```python example is required, found 2",
        ),
        ("```python", "```python slow", 21, "must say `python` or `python gpu`"),
    ],
)
def test_a_broken_page_is_refused_with_file_and_line(
    old: str, new: str, line: int, said: str
) -> None:
    assert PAGE.count(old) >= 1
    message = refused(PAGE.replace(old, new, 1))
    assert message.startswith(f"{PATH}:{line}: "), message
    assert said in message


def test_front_matter_that_is_a_list_is_refused() -> None:
    assert refused("---\n- a\n---\n") == f"{PATH}:2: the front matter must be keys and values"


def test_a_file_name_that_is_no_id_is_refused() -> None:
    page = PAGE.replace("id: halve-the-tile", "id: Halve_It")
    assert refused(page, "tune-tiling/Halve_It.md").startswith("tune-tiling/Halve_It.md:2: ")


def test_an_example_may_ask_for_a_gpu() -> None:
    page = PAGE.replace("```python", "```python gpu")
    assert find_fences(parse_guideline(page, PATH).body)[0].info == "python gpu"
