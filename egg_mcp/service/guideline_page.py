"""A guideline as people and models read it: the same text for tools and resources."""

from __future__ import annotations

from egg_mcp.expert_knowledge.guideline import Guideline


def page_text(guideline: Guideline) -> str:
    """The page as Markdown."""
    return "\n".join(
        (
            f"# {guideline.title}",
            "",
            (
                f"`{guideline.id}`, stage {guideline.stage.value}; for "
                f"{', '.join(map(str, guideline.families))} on {', '.join(guideline.archs)}."
            ),
            "",
            f"**Applies when:** {conditions(guideline)}",
            "",
            f"**Effect:** {guideline.effect}",
            "",
            guideline.body.strip(),
            "",
            "**How it fails:** " + _line(guideline.failure_modes),
            "",
            "**Do not:** " + _line(guideline.anti_patterns),
            "",
            "**Sources:** " + ", ".join(guideline.sources) + f" (checked {guideline.checked_on})",
            "",
        )
    )


def conditions(guideline: Guideline) -> str:
    """When it applies, on one line."""
    return _line(guideline.preconditions)


def _line(words: tuple[str, ...]) -> str:
    return "; ".join(words) or "nothing known"
