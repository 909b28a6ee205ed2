"""Guideline: one expert rule, read from one Markdown page.

A page is YAML front matter between two `---` lines, then a body: the rule itself as first
paragraph, why it holds, when it does not, and one runnable example.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Literal, NoReturn

import yaml
from pydantic import Field, ValidationError

from egg_mcp.errors import KnowledgeError
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.stage import Stage

MAX_RULE_CHARACTERS = 300
"""The longest first paragraph of a body."""
MAX_BODY_WORDS = 250
"""The longest body, code fences not counted."""

_SLUG = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ARCH = re.compile(r"any|sm_\d{2,3}|gfx[0-9a-f]{3,4}")
_SOURCE = re.compile(r"https?://\S+|[\w.-]+/[\w.-]+@[0-9a-f]{7,40} \S+")
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is there


class Guideline(Record):
    """One expert rule: when it applies, what to do, what it brings, how it fails."""

    id: str
    """The name of its file without `.md`; unique over all stages."""
    title: str = Field(min_length=1)
    """What to do, in one line."""
    stage: Stage
    """The stage that may follow it."""
    families: tuple[OperatorFamily | Literal["any"], ...] = Field(min_length=1)
    """The kinds of work it is for."""
    archs: tuple[str, ...] = Field(min_length=1)
    """The architectures it is for, as `sm_90`; or `any`."""
    precision: tuple[PrecisionPolicy | Literal["any"], ...] = Field(min_length=1)
    """The precision policies under which it may be followed."""
    symptoms: tuple[str, ...]
    """Findings that call for it, as `register_spills`; empty when it needs none."""
    preconditions: tuple[str, ...] = Field(min_length=1)
    """What must hold before it is followed."""
    effect: str = Field(min_length=1)
    """What it brings; a figure only together with where it comes from."""
    failure_modes: tuple[str, ...]
    """How it goes wrong when followed badly."""
    anti_patterns: tuple[str, ...]
    """What people do instead, and should not."""
    sources: tuple[str, ...] = Field(min_length=1)
    """Public sources: an address, or `owner/repo@commit path`."""
    checked_on: date
    """The day the page was last held against its sources."""
    body: str
    """Markdown: the rule, why, when not, one example."""

    @property
    def rule(self) -> str:
        """The first paragraph of the body, on one line."""
        return " ".join(self.body.split("\n\n", 1)[0].split())


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a page."""

    line: int
    """Line of its first line of code, counted from 1 in the whole page."""
    info: str
    """The words after the opening backticks: `python` or `python gpu`."""
    code: str
    """What stands between the fences."""


def find_fences(text: str) -> tuple[Fence, ...]:
    """The fenced blocks of a page, in order."""
    return tuple(
        Fence(
            line=text.count("\n", 0, found.start("code")) + 1,
            info=found["info"].strip(),
            code=found["code"],
        )
        for found in _FENCE.finditer(text)
    )


def stage_folder(stage: Stage) -> str:
    """The folder that holds a stage's pages.

    >>> stage_folder(Stage.TUNE_TILING)
    'tune-tiling'
    """
    return stage.value.replace("_", "-")


def parse_guideline(text: str, path: str) -> Guideline:
    """Read one page.

    Args:
        text: the whole page.
        path: where it stands, as `tune-tiling/some-id.md`; named in every message.

    Raises:
        KnowledgeError: the page breaks the format; the message starts with `path:line:`.
    """
    page = _Page.split(text, path)
    page.check_keys()
    page.check_words("families", ["any", *OperatorFamily])
    page.check_words("precision", ["any", *PrecisionPolicy])
    page.check_form("archs", _ARCH, "any, sm_90 or gfx942")
    page.check_form("symptoms", _SLUG, "words joined by underscores")
    page.check_form("sources", _SOURCE, "an http address or owner/repo@commit path")
    page.check_place()
    page.check_body()
    return page.guideline()


@dataclass(frozen=True, slots=True)
class _Page:
    path: str
    values: dict[str, Any]
    lines: dict[str, int]
    body: str
    body_line: int

    @classmethod
    def split(cls, text: str, path: str) -> _Page:
        """Take the front matter from the body and note the line of each key."""
        rows = text.split("\n")
        if rows[0] != "---":
            _refuse(path, 1, "the page must start with a '---' line")
        if "---" not in rows[1:]:
            _refuse(path, 1, "the front matter has no closing '---' line")
        end = rows.index("---", 1)
        values, lines = _front_matter("\n".join(rows[1:end]), path)
        first = end + 1
        while first < len(rows) and not rows[first].strip():
            first += 1
        return cls(path, values, lines, "\n".join(rows[first:]).rstrip(), first + 1)

    def check_keys(self) -> None:
        """Every key of the format is there, and no other."""
        known = [name for name in Guideline.model_fields if name != "body"]
        for name in self.values:
            if name not in known:
                self.refuse(name, f"unknown key {name!r}; known: {', '.join(known)}")
        missing = [name for name in known if name not in self.values]
        if missing:
            _refuse(self.path, 1, f"missing keys: {', '.join(missing)}")

    def check_words(self, key: str, known: list[str]) -> None:
        """Each entry of a list is one of the known words."""
        for word in self._entries(key):
            if word not in known:
                self.refuse(key, f"unknown word {word!r} in {key}; known: {', '.join(known)}")

    def check_form(self, key: str, form: re.Pattern[str], wanted: str) -> None:
        """Each entry of a list has the form that is wanted."""
        for entry in self._entries(key):
            if not form.fullmatch(str(entry)):
                self.refuse(key, f"bad entry {entry!r} in {key}; wanted: {wanted}")

    def check_place(self) -> None:
        """Id and stage agree with where the file stands."""
        place = PurePosixPath(self.path)
        page_id, stage = self.values["id"], self.values["stage"]
        if stage not in list(Stage):
            self.refuse("stage", f"unknown stage {stage!r}; known: {', '.join(Stage)}")
        if page_id != place.stem or not _ID.fullmatch(place.stem):
            self.refuse("id", f"id {page_id!r} must be the file's name, {place.stem!r}, in a-z0-9-")
        folder = stage_folder(Stage(stage))
        if place.parent.name != folder:
            self.refuse("stage", f"a page of {stage} belongs in the folder {folder!r}")

    def check_body(self) -> None:
        """The rule comes first and is short, so is the whole, and there is one example."""
        rule = self.body.split("\n\n", 1)[0]
        if not rule or rule.startswith(("#", "```")):
            self.refuse_body("the body must start with the rule as a plain paragraph")
        if len(" ".join(rule.split())) > MAX_RULE_CHARACTERS:
            self.refuse_body(f"the first paragraph is over {MAX_RULE_CHARACTERS} characters")
        words = len(_FENCE.sub("", self.body).split())
        if words > MAX_BODY_WORDS:
            self.refuse_body(f"the body has {words} words; at most {MAX_BODY_WORDS}")
        if self.body.count("\n```") != 2 * len(find_fences(self.body)):
            self.refuse_body("a code fence is not closed")
        runnable = [fence for fence in find_fences(self.body) if fence.info.startswith("python")]
        if len(runnable) != 1:
            self.refuse_body(f"exactly one ```python example is required, found {len(runnable)}")
        if runnable[0].info not in ("python", "python gpu"):
            self.refuse_body("the example's fence must say `python` or `python gpu`")

    def guideline(self) -> Guideline:
        """The page as a model; what the model refuses is charged to the key's line."""
        try:
            return Guideline.model_validate({**self.values, "body": self.body})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            self.refuse(key, f"{key}: {first['msg']}, got {self.values.get(key)!r}")

    def _entries(self, key: str) -> list[Any]:
        found = self.values[key]
        if not isinstance(found, list):
            self.refuse(key, f"{key} must be a list, got {found!r}")
        return found  # pyright: ignore[reportUnknownVariableType]

    def refuse(self, key: str, why: str) -> NoReturn:
        """Refuse the page because of one key."""
        _refuse(self.path, self.lines.get(key, 1), why)

    def refuse_body(self, why: str) -> NoReturn:
        """Refuse the page because of its body."""
        _refuse(self.path, self.body_line, why)


def _front_matter(text: str, path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The values and the line of each key, counted in the page."""
    loader: Any = _Loader(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            _refuse(path, 2, "the front matter must be keys and values")
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 2  # yaml counts from 0, and the page has '---' above
            name = str(key.value)
            if name in lines:
                _refuse(path, line, f"key {name!r} stands twice")
            lines[name] = line
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        _refuse(path, line, f"not YAML: {error.problem}")
    except (yaml.YAMLError, ValueError) as error:  # a bad character, or a date like 2026-13-01
        _refuse(path, 2, f"not YAML: {error}")
    finally:
        loader.dispose()


def _refuse(path: str, line: int, why: str) -> NoReturn:
    raise KnowledgeError(f"{path}:{line}: {why}")
