"""OutputTail: the first and last part of what a process printed, and how much it was."""

from __future__ import annotations


class OutputTail:
    r"""Keeps a quarter of the limit from the start and the rest from the end.

    >>> tail = OutputTail(limit_bytes=8)
    >>> tail.feed(b"abcdefghijkl")
    >>> tail.text()
    'ab\n[4 bytes left out]\nghijkl'
    """

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 4
        self._tail_limit = limit_bytes - self._head_limit
        self._head = b""
        self._tail = b""
        self._total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take in what was read."""
        self._total_bytes += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-self._tail_limit :]

    def text(self, last_bytes: int | None = None) -> str:
        """What is kept, undecodable bytes replaced; only the end when `last_bytes` is given."""
        dropped = self._total_bytes - len(self._head) - len(self._tail)
        if dropped:
            gap = f"\n[{dropped} bytes left out]\n".encode()
            kept = self._head + gap + self._tail
        else:
            kept = self._head + self._tail
        if last_bytes is not None:
            kept = kept[-last_bytes:]
        return kept.decode("utf-8", "replace")
