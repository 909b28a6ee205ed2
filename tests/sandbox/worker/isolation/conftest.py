from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.worker.isolation.opening import BOXED, ROUTES, Opener


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder below which every user can reach: pytest's own are its owner's alone."""
    with tempfile.TemporaryDirectory(prefix="box-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def opener(open_folder: Path) -> Opener:
    scratch = open_folder / "scratch"
    scratch.mkdir(mode=0o700)
    return Opener(scratch)


@pytest.fixture
def line() -> Iterator[tuple[int, int]]:
    """A pipe: who holds its second end is still there. The test may close that end."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    with contextlib.suppress(OSError):
        os.close(writing)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, routes in (("route", ROUTES), ("boxed", BOXED)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, routes, ids=[each.name for each in routes])
