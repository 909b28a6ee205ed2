"""Completions: values for a stage, a session, a candidate, a guideline, while a person types."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from egg_mcp.service import Egg
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.vocabulary.stage import Stage

_MOST = 100


class Completions:
    """Answers `completion/complete`."""

    def __init__(self, current: Callable[[], Egg]) -> None:
        self._current = current

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        """The values that fit what was typed, at most 100."""
        template = ref.uri if isinstance(ref, ResourceTemplateReference) else ""
        known = (context.arguments if context else None) or {}
        if argument.name == "stage":
            return _fitting((stage.value for stage in Stage), argument.value)
        egg = self._current()
        if argument.name == "session_id" or template.startswith("egg://sessions/{id}"):
            return self._in_session(egg, argument, known)
        if argument.name == "id" and template.startswith("egg://guidelines/"):
            stages = [stage for stage in Stage if known.get("stage", stage.value) == stage.value]
            ids = (page.id for stage in stages for page in egg.library.of_stage(stage))
            return _fitting(ids, argument.value)
        return None

    @staticmethod
    def _in_session(
        egg: Egg, argument: CompletionArgument, known: dict[str, str]
    ) -> Completion | None:
        if argument.name in ("id", "session_id"):
            sessions = egg.store.sessions.list(LOCAL_PRINCIPAL, _MOST)
            return _fitting((one.session_id for one in sessions), argument.value)
        if argument.name == "n" and (session_id := known.get("id")):
            candidates = egg.store.candidates.of_session(session_id)
            return _fitting((str(one.number) for one in candidates), argument.value)
        if argument.name == "kind":
            return _fitting(("ttir", "ttgir", "llir", "ptx"), argument.value)
        return None


def _fitting(values: Iterable[str], typed: str) -> Completion:
    fitting = [value for value in values if value.startswith(typed)]
    return Completion(values=fitting[:_MOST], total=len(fitting), has_more=len(fitting) > _MOST)
