"""Sight: a box with a live candidate in it, seen from outside (Linux)."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchmarks.attacks.attack import During
from benchmarks.attacks.outsiders import status
from benchmarks.attacks.source import World

_FIRST_UNIX = "UNIX"
_WRITES = os.O_WRONLY | os.O_RDWR
_CONNECT_S = 2.0
_GPU_MAJOR, _FIRST_CONTROL = 195, 250
_PLAIN = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)}
"""null, zero, full, random, urandom."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A descriptor of a process of the box.

    Attributes:
        process: whose.
        entry: in `/proc`; following it leads to the file itself.
        text: what it is called.
    """

    process: int
    entry: Path
    text: str

    @property
    def writes(self) -> bool:
        """Whether it may be written to."""
        with contextlib.suppress(OSError):
            info = Path(f"/proc/{self.process}/fdinfo/{self.entry.name}").read_text("ascii")
            flags = next(line for line in info.splitlines() if line.startswith("flags:"))
            return bool(int(flags.split()[1], 8) & _WRITES)
        return False

    @property
    def protocol(self) -> str:
        """Of a socket, as the kernel names it; empty for all else."""
        with contextlib.suppress(OSError):
            name = os.getxattr(self.entry, "system.sockprotoname")
            return name.rstrip(b"\0").decode("ascii", "replace")
        return ""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is in the box at this moment.

    Attributes:
        processes: the guard and all below it.
        world: what the attack was told.
    """

    processes: tuple[int, ...]
    world: World

    @property
    def label(self) -> str:
        """Marks what this attack makes."""
        return str(self.world["label"])

    def limit(self, name: str) -> int:
        """Of the box, as the plan has it."""
        return cast("dict[str, int]", self.world["limits"])[name]

    def open_files(self) -> Iterator[OpenFile]:
        """All descriptors of all processes."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                for entry in Path(f"/proc/{process}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield OpenFile(process, entry, os.readlink(entry))  # noqa: PTH115 - text

    def status_sum(self, name: str) -> int:
        """Of a number in every process's status, in its own unit."""
        total = 0
        for process in self.processes:
            with contextlib.suppress(OSError, KeyError, IndexError):
                total += int(status(process)[name].split()[0])
        return total

    def below(self, path: str) -> Iterator[Path]:
        """The path as each process of the box sees it, from outside."""
        for process in self.processes:
            yield Path(f"/proc/{process}/root{path}")


def holds_socket(sight: Sight) -> str:
    """A socket of any family but unix."""
    found = {one.protocol for one in sight.open_files()} - {""}
    strange = sorted(name for name in found if not name.startswith(_FIRST_UNIX))
    return f"it holds sockets of {', '.join(strange)}" if strange else ""


def answers_on_port(sight: Sight) -> str:
    """Something outside can connect to what it listens on."""
    with contextlib.suppress(OSError), socket.socket() as sock:
        sock.settimeout(_CONNECT_S)
        sock.connect(("127.0.0.1", int(str(sight.world["free_port"]))))
        return "a connection from outside to its port was taken"
    return ""


def holds_named(*texts: str) -> During:
    """A descriptor whose name holds one of the texts."""

    def during(sight: Sight) -> str:
        for one in sight.open_files():
            if any(text in one.text for text in texts):
                return f"it holds {one.text}"
        return ""

    return during


def holds_for_writing(sight: Sight) -> str:
    """A file that `world` says is not to be written, under its path or any other."""
    for one in sight.open_files():
        if one.writes and _is_same(one, sight.world["precious"]):
            return f"it holds {one.text} for writing"
    return ""


def _is_same(one: OpenFile, precious: object) -> bool:
    paths = cast("list[str]", precious)
    if one.text in paths and one.text.startswith(("/proc", "/sys")):
        return True
    for path in paths:
        with contextlib.suppress(OSError):
            if one.entry.samefile(path):
                return True
    return False


def holds_device(sight: Sight) -> str:
    """A block device, or a character device that is neither plain nor a GPU's."""
    for one in sight.open_files():
        with contextlib.suppress(OSError):
            found = one.entry.stat()
            which = (os.major(found.st_rdev), os.minor(found.st_rdev))
            if stat.S_ISBLK(found.st_mode):
                return f"it holds the block device {one.text}"
            is_known = which in _PLAIN or "nvidia" in one.text
            if stat.S_ISCHR(found.st_mode) and not is_known:
                return f"it holds the device {one.text}"
    return ""


def holds_other_gpu(sight: Sight) -> str:
    """The node of a GPU that it was not given, under whatever name."""
    for one in sight.open_files():
        with contextlib.suppress(OSError):
            which = one.entry.stat().st_rdev
            is_gpu = os.major(which) == _GPU_MAJOR and os.minor(which) < _FIRST_CONTROL
            if is_gpu and os.minor(which) != sight.world["gpu"]:
                return f"it holds {one.text}, GPU {os.minor(which)}"
    return ""


def traces_victim(sight: Sight) -> str:
    """A debugger is attached to the victim."""
    tracer = status(int(str(sight.world["victim"])))["TracerPid"]
    return f"process {tracer} traces the victim" if tracer != "0" else ""
