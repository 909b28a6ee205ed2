"""Trial: one set of inputs and what the outputs on it must be."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch

from egg_mcp.sandbox.worker.comparison import Judge, expect_all
from egg_mcp.sandbox.worker.numeric_rule import Expected
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.reference import Reference, clone, ieee_math
from egg_mcp.sandbox.worker.seeds import seed_all
from egg_mcp.sandbox.worker.tensors import Other, Unwritten
from egg_mcp.sandbox.worker.values import (
    is_real_float,
    leaves,
    map_tensors,
    same_bytes,
    size_bytes,
    tensors,
)

MOST_NOT_FINITE = 0.5
KINDS = ("given", "zero_mean", "rescaled")
FACTORS = tuple(2.0**power for power in (-4, -3, -2, -1, 1, 2, 3, 4))


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one call of a candidate is judged by."""

    inputs: list[Any]
    expected: Any
    """The outputs' structure, an `Expected` or `Exact` for each tensor."""
    mutated: frozenset[str]
    """Inputs that the reference itself changes in place."""
    aliases_input: bool
    """Whether the reference itself returns memory of an input."""
    output_bytes: int
    oracle: str
    """`float64` or `float32`."""
    unfit: str | None
    """Why varied inputs such as these can't be judged: the reference left its domain."""

    def judge(self, outputs: Any, inputs_after: Any) -> dict[str, Any]:
        """The reply to `judge`, but for `ok`."""
        judge = Judge()
        judge.compare(self.expected, outputs)
        before, after = list(leaves(self.inputs, "inputs")), list(leaves(inputs_after, "inputs"))
        if len(before) != len(after):
            raise OpError("bad_tree", f"{len(after)} inputs came back of {len(before)}")
        changed = [
            name
            for (name, own), (_, now) in zip(before, after, strict=True)
            if name not in self.mutated and not _same(own, now)
        ]
        return {
            "outputs": judge.records,
            "structure": judge.structure,
            "inputs_changed": changed,
        }


def _same(before: Any, after: Any) -> bool:
    if not isinstance(before, torch.Tensor):
        return True
    if isinstance(after, (Unwritten, Other)) or not isinstance(after, torch.Tensor):
        return False
    return same_bytes(before, after)


def vary(inputs: list[Any], kind: str, seed: int) -> list[Any]:
    """The inputs of a trial kind, from those that `get_inputs` gave.

    `zero_mean`: floats become normal with the input's own RMS. On positive inputs rounding errors
    average out against the mean, and low precision passes for high.
    `rescaled`: floats times one power of two, exact in every dtype.

    Raises:
        OpError: unknown kind.
    """
    if kind not in KINDS:
        raise OpError("bad_request", f"no trial kind {kind!r}; there are {', '.join(KINDS)}")
    if kind == "given":
        return inputs
    seed_all(seed + 1)
    # Not a secret: the seed it comes from is.
    factor = random.Random(seed).choice(FACTORS)  # noqa: S311

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not is_real_float(tensor) or not tensor.numel():
            return tensor
        if kind == "rescaled":
            return (tensor.to(_wide(tensor)) * factor).to(tensor.dtype)
        return _zero_mean(tensor)

    return map_tensors(inputs, change)


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype if tensor.element_size() > 1 else torch.float32


def _zero_mean(tensor: torch.Tensor) -> torch.Tensor:
    rms = float(tensor.abs().to(torch.float32).square().mean().sqrt())
    # An input with infinities is a mask or a bound: normal numbers would mean something else.
    if not 0.0 < rms < float("inf"):
        return tensor
    dtype = tensor.dtype if tensor.is_complex() else torch.float32
    return (torch.randn_like(tensor, dtype=dtype) * rms).to(tensor.dtype)


def prepare(reference: Reference, model: torch.nn.Module, inputs: list[Any]) -> Trial:
    """Run the reference on the inputs, in its own precision and in higher and lower ones."""
    given = clone(inputs)
    with ieee_math():
        native = reference.run(model, given)
        aliases = shares_storage(native, given)
        native = clone(native)
        mutated = frozenset(
            name
            for (name, before), (_, after) in zip(
                leaves(inputs, "inputs"), leaves(given, "inputs"), strict=True
            )
            if isinstance(before, torch.Tensor) and not same_bytes(before, after)
        )
        del given
        oracle, precision = reference.oracle(model, inputs, native)
        rounded: dict[str, Any] = {}
        if any(one.dtype in (torch.float32, torch.complex64) for one in tensors(native)):
            rounded = {form: reference.rounded(model, inputs, form) for form in ("tf32", "bf16")}
    expected = expect_all(native, oracle, precision == "float64", rounded)
    return Trial(
        inputs,
        expected,
        mutated,
        aliases,
        size_bytes(native),
        precision,
        _unfit(tensors(native), expected),
    )


def _unfit(native: list[torch.Tensor], expected: Any) -> str | None:
    if any(bool(one.isnan().any()) for one in native if one.element_size() > 1):
        return "the reference gives NaN on it"
    share = not_finite(native)
    if share > MOST_NOT_FINITE:
        return f"{100 * share:.3g} % of the reference's output is infinite on it"
    # Infinities that float64 has too are a mask's, and fine.
    for _, leaf in leaves(expected, "outputs"):
        if isinstance(leaf, Expected) and leaf.native_classes is not None:
            return "the reference overflows on it where float64 does not"
    return None


def not_finite(outputs: list[torch.Tensor]) -> float:
    """Share of floating-point elements that are NaN or infinite."""
    floats = [one for one in outputs if is_real_float(one)]
    total = sum(one.numel() for one in floats)
    finite = sum(
        int(torch.isfinite(one if one.element_size() > 1 else one.float()).sum()) for one in floats
    )
    return (total - finite) / total if total else 0.0


def shares_storage(outputs: Any, inputs: Any) -> bool:
    """Whether any output lies in an input's memory."""
    own = {one.untyped_storage().data_ptr() for one in tensors(inputs) if one.numel()}
    return any(one.untyped_storage().data_ptr() in own for one in tensors(outputs) if one.numel())
