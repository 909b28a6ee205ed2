"""Terminal: one outside, into which nobody types."""

from __future__ import annotations

import os
import tty
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terminal:
    """A pair of descriptors.

    Attributes:
        master: where a window would be.
        slave: where a shell would read.
    """

    master: int
    slave: int

    @classmethod
    def open(cls) -> Terminal:
        """Open one whose input is not held back until a line is full."""
        found = cls(*os.openpty())
        tty.setraw(found.slave)
        os.set_blocking(found.slave, False)
        return found

    @property
    def path(self) -> str:
        """Of the shell's end."""
        return os.ttyname(self.slave)

    def typed(self) -> str:
        """What was typed; empty when nothing was."""
        try:
            return f"{os.read(self.slave, 100)!r} was typed into a terminal outside"
        except BlockingIOError:
            return ""

    def close(self) -> None:
        """Close both."""
        os.close(self.master)
        os.close(self.slave)
