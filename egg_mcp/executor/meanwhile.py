"""Meanwhile: a candidate is compiled while it waits for the device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from egg_mcp.sandbox.compile_ahead import CompiledAhead

Compile = Callable[[], Awaitable[CompiledAhead | None]]


class Meanwhile:
    """Starts when there is a queue; what is ready when the turn comes is used."""

    def __init__(self, compile_it: Compile, task_group: anyio.abc.TaskGroup) -> None:
        self._compile = compile_it
        self._task_group = task_group
        self._scope = anyio.CancelScope()
        self._ended: anyio.Event | None = None
        self._compiled: CompiledAhead | None = None

    def start(self) -> None:
        """Begin to compile, beside everything else."""
        self._ended = anyio.Event()
        self._task_group.start_soon(self._run, self._ended)

    async def result(self) -> CompiledAhead | None:
        """What is compiled by now; what is not is given up."""
        self._scope.cancel()
        if self._ended is not None:
            await self._ended.wait()
        return self._compiled

    async def aclose(self) -> None:
        """Give up, and let what was compiled go."""
        with anyio.CancelScope(shield=True):
            await self.result()
        if self._compiled is not None:
            self._compiled.close()

    async def _run(self, ended: anyio.Event) -> None:
        try:
            with self._scope:
                self._compiled = await self._compile()
        finally:
            ended.set()
