"""A short soak: nothing is left behind, nothing is called what it is not."""

from __future__ import annotations

import sys

import anyio
import pytest

from benchmarks.soak import soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")


def test_nothing_is_left_of_forty_evaluations_with_faults() -> None:
    lines: list[str] = []
    faults = anyio.run(soak, 40, 20_261_201, lines.append)
    assert faults == [], "\n".join(lines)
