"""Growth: what a session has gathered, parsed once, since nothing of it ever changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")

_SESSIONS_KEPT = 4


class Growth(Generic[Item]):
    """Per session, the rows seen so far and the number of the last one.

    With it a session of thousands of candidates costs each call only its new rows. It holds the
    few sessions used last. Rows of a transaction that may still be rolled back stay out.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, tuple[Item, ...]]] = OrderedDict()

    def of(self, session_id: str) -> tuple[int, tuple[Item, ...]]:
        """The last number seen, 0 for none, and all items up to it."""
        return self._seen.get(session_id, (0, ()))

    def keep(self, session_id: str, last: int, items: Sequence[Item]) -> None:
        """Remember all items up to the number `last`."""
        self._seen[session_id] = (last, tuple(items))
        self._seen.move_to_end(session_id)
        while len(self._seen) > _SESSIONS_KEPT:
            self._seen.popitem(last=False)
