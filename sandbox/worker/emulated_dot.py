"""Dot products under emulation, with the rounding that a GPU would do.

The stock interpreter multiplies float32 exactly whatever `input_precision` says, so a kernel that
takes TF32 by default would look as precise as the reference. It also refuses `bf16x3` and
`bf16x6`, which the compiler takes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]

TF32_DROPPED_BITS = 13
BF16_DROPPED_BITS = 16
_TERMS = {"bf16x3": 3, "bf16x6": 6}


def rounded(values: Float32, dropped_bits: int) -> Float32:
    """Float32 rounded to nearest even, its lowest mantissa bits zero; non-finite as they are.

    Args:
        values: any shape.
        dropped_bits: 13 leaves TF32's mantissa, 16 bfloat16's.

    >>> float(rounded(np.array([1 + 2**-11], np.float32), 13)[0])
    1.0
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    half = np.uint32((1 << (dropped_bits - 1)) - 1)
    odd = (bits >> np.uint32(dropped_bits)) & np.uint32(1)
    kept = (bits + half + odd) & np.uint32(0xFFFFFFFF << dropped_bits & 0xFFFFFFFF)
    return np.where(np.isfinite(values), kept.view(np.float32), values)


def split_product(left: Float32, right: Float32, terms: int) -> Float32:
    """The product by bfloat16 parts, as `bf16x3` (3 terms) or `bf16x6` (6 terms) forms it.

    Args:
        left: `[..., M, K]`.
        right: `[..., K, N]`.
        terms: how many products of parts are summed, smallest first.
    """
    lefts, rights = _parts(left), _parts(right)
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)][:terms]
    total = np.zeros((), np.float32)
    for first, second in reversed(pairs):
        total = total + np.matmul(lefts[first], rights[second], dtype=np.float32)
    return np.asarray(total, np.float32)


def install() -> bool:
    """Make the interpreter's dot products round; False where its insides are not as expected."""
    try:
        interpreter = importlib.import_module("triton.runtime.interpreter")
        builder = interpreter.interpreter_builder
        options = builder.options
        stock = interpreter.InterpreterBuilder.create_dot
        handle = interpreter.TensorHandle
        allowed = (*options.allowed_dot_input_precisions, *_TERMS)
        builder.options = dataclasses.replace(options, allowed_dot_input_precisions=allowed)
    except (ImportError, AttributeError, TypeError):
        return False

    def create_dot(
        self: Any,
        a: Any,
        b: Any,
        d: Any,
        input_precision: Any,
        max_num_imprecise_acc: Any,
    ) -> Any:
        name = str(input_precision).rsplit(".", 1)[-1].lower()
        if a.data.dtype != np.float32 or b.data.dtype != np.float32:
            return stock(self, a, b, d, input_precision, max_num_imprecise_acc)
        if name == "tf32":
            left = rounded(a.data, TF32_DROPPED_BITS)
            right = rounded(b.data, TF32_DROPPED_BITS)
            return handle(np.matmul(left, right) + d.data, d.dtype.scalar)
        if name in _TERMS:
            return handle(split_product(a.data, b.data, _TERMS[name]) + d.data, d.dtype.scalar)
        return stock(self, a, b, d, input_precision, max_num_imprecise_acc)

    interpreter.InterpreterBuilder.create_dot = create_dot
    return True


def _parts(values: Float32) -> list[Float32]:
    """Three bfloat16 parts that sum to nearly the value."""
    high = rounded(values, BF16_DROPPED_BITS)
    rest = values - high
    middle = rounded(rest, BF16_DROPPED_BITS)
    return [high, middle, rounded(rest - middle, BF16_DROPPED_BITS)]
