"""LayerError: which layer of a plan could not be had, and why."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class LayerError(Exception):
    """A layer could not be applied; the box must not open.

    Attributes:
        layer: one of `plan.LAYERS`, or `box` for what every box needs.
        why: one line.
    """

    def __init__(self, layer: str, why: str) -> None:
        self.layer = layer
        self.why = why
        super().__init__(f"{layer}: {why}")


@contextmanager
def applying(layer: str) -> Generator[None]:
    """Name the layer in whatever the system refuses.

    Raises:
        LayerError: in place of OSError and ValueError.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise LayerError(layer, str(error)) from error
