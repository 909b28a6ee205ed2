"""Mailbox: where tensors of one direction lie; a file, and device memory where both sides have it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch

from egg_mcp.sandbox import frames
from egg_mcp.sandbox.worker import device_memory
from egg_mcp.sandbox.worker.device_memory import DeviceMemory
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.shared_file import SharedFile

IN_MEMORY = "memory"
"""What a tree says of a tensor whose bytes lie in device memory."""

Place = SharedFile | DeviceMemory


class Mailbox:
    """A file that takes any tensor, and device memory that takes those of its device."""

    def __init__(self, file: SharedFile, memory: DeviceMemory | None = None) -> None:
        self.file = file
        self.memory = memory
        self._memory_end = 0

    def rewind(self) -> None:
        """What is put into device memory next goes to its start."""
        self._memory_end = 0

    def allot(self, device: torch.device, nbytes: int) -> int | None:
        """Where in device memory the next tensor goes; None: it does not, the file takes it."""
        start = frames.aligned(self._memory_end)
        if self.memory is None or device != self.memory.device or not nbytes:
            return None
        if start + nbytes > self.memory.size_bytes:
            return None
        self._memory_end = start + nbytes
        return start

    def place(self, name: object) -> Place:
        """Where a tree says that bytes lie.

        Raises:
            OpError: `bad_tree`: no such place.
        """
        if name is None:
            return self.file
        if name == IN_MEMORY and self.memory is not None:
            return self.memory
        raise OpError("bad_tree", f"no place {name!s:.40}")


class Mailboxes:
    """The inbox (referee writes, candidate reads) and the outbox (the other way round)."""

    def __init__(self, grows_inbox: bool) -> None:
        self._grows_inbox = grows_inbox
        self._files: list[SharedFile] = []
        self._boxes: list[Mailbox] = []
        self._memories: list[DeviceMemory] = []

    def take(self, op: str, request: dict[str, Any], descriptors: list[int]) -> None:
        """Answer the requests that come with descriptors: `open_files`, `open_memory`.

        Raises:
            OpError: not two descriptors, or device memory that cannot be had.
        """
        if len(descriptors) != 2:
            _close(descriptors)
            raise OpError("bad_request", f"{op} takes 2 descriptors, got {len(descriptors)}")
        if op == "open_files":
            self._open(descriptors)
            return
        try:
            self._adopt(descriptors, request["sizes"])
        finally:
            _close(descriptors)

    def make_memory(self, sizes: list[int]) -> tuple[list[int], list[int]]:
        """Device memory for both, wiped; what was before is closed.

        Args:
            sizes: bytes for inbox and outbox, at least.

        Returns:
            The sizes got, and a descriptor for each, which the caller must close.

        Raises:
            OpError: `no_segment`: it cannot be had here.
        """
        self.drop_memory()
        descriptors: list[int] = []
        try:
            for size in sizes:
                memory, descriptor = device_memory.make(size)
                self._memories.append(memory)
                descriptors.append(descriptor)
        except OpError:
            _close(descriptors)
            self.drop_memory()
            raise
        self._mount()
        return [memory.size_bytes for memory in self._memories], descriptors

    def drop_memory(self) -> None:
        """From now on everything goes through files."""
        memories, self._memories = self._memories, []
        self._mount()
        for memory in memories:
            memory.close()

    @property
    def inbox(self) -> Mailbox:
        """Inputs, weights, init values."""
        return self._box(0)

    @property
    def outbox(self) -> Mailbox:
        """Outputs."""
        return self._box(1)

    def _open(self, descriptors: list[int]) -> None:
        for file in self._files:
            file.close()
        inbox, outbox = descriptors
        self._files = [SharedFile(inbox, may_grow=self._grows_inbox), SharedFile(outbox)]
        self._mount()

    def _adopt(self, descriptors: list[int], sizes: list[int]) -> None:
        self.drop_memory()
        try:
            for descriptor, size in zip(descriptors, sizes, strict=True):
                self._memories.append(device_memory.adopt(descriptor, size))
        except OpError:
            self.drop_memory()
            raise
        self._mount()

    def _mount(self) -> None:
        memories = self._memories or [None, None]
        self._boxes = [
            Mailbox(file, memory) for file, memory in zip(self._files, memories, strict=False)
        ]

    def _box(self, index: int) -> Mailbox:
        if not self._boxes:
            raise OpError("bad_request", "no files yet: send open_files first")
        return self._boxes[index]


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
