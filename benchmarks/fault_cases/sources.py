"""Sources: an honest candidate and its reference, and places in both for a fault."""

from __future__ import annotations

from textwrap import indent

from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash

_IMPORTS = """import ctypes
import json
import mmap
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import traceback

import torch
import triton
import triton.language as tl
from torch import nn

"""
_KERNEL = """
@triton.jit
def add_kernel(a_ptr, b_ptr, y_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, a + b, mask=mask)


def add(a, b):
    y = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), 1024),)](a, b, y, a.numel(), BLOCK=1024)
    return y


def channel():
    for descriptor in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return descriptor
        except OSError:
            continue
    raise AssertionError("no channel")


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack(">4sI", b"EGG1", len(body)) + body

"""


def candidate(
    *, at_import: str = "", construct: str = "", forward: str = "", result: str = "add(a, b)"
) -> str:
    """A right candidate, with statements added.

    Args:
        at_import: in the module, after its imports.
        construct: in the constructor.
        forward: first in `forward`; `self.calls` counts from 1.
        result: what `forward` returns.
    """
    return (
        f"{_IMPORTS}{_KERNEL}{at_import}\n\n"
        "class ModelNew(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.calls = 0\n"
        f"{indent(construct, ' ' * 8)}\n\n"
        "    def forward(self, a, b):\n"
        "        self.calls += 1\n"
        f"{indent(forward, ' ' * 8)}\n"
        f"        return {result}\n"
    )


def reference(*, at_import: str = "", forward: str = "", title: str = "Sum.") -> Problem:
    """The sum of two vectors, with statements added; `is_trial()` tells a trial from a screening."""
    source = (
        f'"""{title}"""\n{_IMPORTS}'
        "def is_trial():\n"
        "    return any(one.name == 'prepare' for one in traceback.extract_stack())\n\n"
        f"{at_import}\n\n"
        "class Model(nn.Module):\n"
        "    def forward(self, a, b):\n"
        f"{indent(forward, ' ' * 8)}\n"
        "        return a + b\n\n\n"
        "def get_inputs():\n"
        "    return [torch.randn(3000), torch.randn(3000)]\n"
    )
    return Problem(problem_hash=content_hash(source), title=title, source=source)


HONEST = candidate()
SUM = reference()
