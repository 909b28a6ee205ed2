"""OutputPipe: where a worker prints; read all the time, kept in part."""

from __future__ import annotations

import os

import anyio

from egg_mcp.sandbox.output_tail import OutputTail

_CHUNK_BYTES = 1 << 18


class OutputPipe:
    """Our end is read until every process that holds the other has ended or closed it."""

    def __init__(self, limit_bytes: int) -> None:
        self.tail = OutputTail(limit_bytes)
        self.ended = anyio.Event()
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)

    def hand_over(self) -> None:
        """The other end is with the worker: close ours of it."""
        os.close(self.theirs)

    async def drain(self) -> None:
        """Read to the end."""
        try:
            while chunk := await self._chunk():
                self.tail.feed(chunk)
        finally:
            os.close(self._ours)
            self.ended.set()

    async def _chunk(self) -> bytes:
        while True:
            await anyio.wait_readable(self._ours)
            try:
                return os.read(self._ours, _CHUNK_BYTES)
            except BlockingIOError:
                continue
