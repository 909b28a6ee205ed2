"""Seeds: every generator that a reference or candidate may draw from."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import importlib
import random
from typing import Any

import torch


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


NUMPY = _numpy()


def seed_all(seed: int) -> None:
    """Seed torch (CPU and every GPU), `random` and, where it exists, numpy."""
    random.seed(seed)
    torch.manual_seed(seed % 2**63)
    if NUMPY is not None:
        NUMPY.random.seed(seed % 2**32)


def draw_afresh() -> None:
    """In a fork: leave the states that every fork of one process has. Torch's seed is fixed anyway."""
    random.seed()
    if NUMPY is not None:
        NUMPY.random.seed()
