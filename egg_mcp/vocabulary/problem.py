"""Problem: the reference module, its inputs and init inputs; immutable, content-hashed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.family import OperatorFamily
from egg_mcp.vocabulary.record import Record


class Problem(Record):
    """One reference in KernelBench form."""

    problem_hash: str
    """SHA-256 of `source`."""
    title: str
    """What to call it: the first line of the docstring, else the file's name, else `Model`."""
    source: str
    """Python source that defines `Model`, `get_inputs` and, if need be, `get_init_inputs`."""


class ValueFacts(Record):
    """One input or output of the reference."""

    name: str
    """Its place: `inputs[0]`, `outputs[1]`."""
    kind: str
    """`tensor`, or the Python type of a value that is none."""
    shape: tuple[int, ...] | None = None
    """The tensor's sizes; None for other values."""
    dtype: str | None = None
    """As torch prints it, without the prefix: `float32`."""
    size_bytes: int = 0
    """Elements times element size."""


ScreeningStatus = Literal[
    "ok", "task_degenerate", "task_nondeterministic", "reference_failed", "infra_error"
]


class Screening(Record):
    """What was found when the reference ran by itself, before any candidate."""

    status: ScreeningStatus
    """`ok`, or why no verdict on this Problem would mean anything."""
    explanation: str
    """In words: what was wrong with the reference, where, and what to do."""
    inputs: tuple[ValueFacts, ...] = ()
    """What `get_inputs()` gave."""
    outputs: tuple[ValueFacts, ...] = ()
    """What `forward` gave."""
    parameter_count: int = 0
    """Elements in parameters and buffers."""
    families: tuple[OperatorFamily, ...] = ()
    """Operator families seen in one forward."""
    operators: dict[str, int] = Field(default_factory=dict[str, int])
    """Aten operators seen in one forward, with how often each ran."""
    flops: int | None = None
    """Multiply-adds count as two; None where the counter knows none of the operators."""
    least_bytes: int | None = None
    """Inputs, parameters and outputs, each once: what any kernel must move at least."""
    oracle: Literal["float64", "float32"] | None = None
    """What expected values are computed in; float32 where an operator has no float64."""
    reference_ms: float | None = None
    """One warm forward of the reference on this device by the worker's clock; a rough size."""
    device: DeviceFacts | None = None
    """What it ran on."""
