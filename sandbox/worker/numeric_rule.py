"""NumericRule: how far from float64 an output may be, by the reference's own error.

`R` is the RMS of the oracle, `E` the RMS of the reference's error, `q` that error's 99.9th
percentile, `u` the unit roundoff of the output's dtype. Then, for a candidate's output `c`:

    ratio       = rms(c - oracle) / max(E, u*R/4)
    elementwise : |c - oracle| <= 8*u*|oracle| + max(8*u*R, 16*q)

Tolerances fixed in advance reject honest sums over long axes and accept dropped terms.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

from egg_mcp.sandbox.worker.number_class import REAL_OF, all_finite, classes, classes_as

CHUNK_ELEMENTS = 2**24
SAMPLE_ELEMENTS = 2**20
MAX_RATIO = 1e30
"""Stands for an infinite ratio: JSON has no infinity."""

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
}
# Where the oracle is no finer than the reference its error can't be seen, only assumed: one unit,
# eight in float64, whose honest reorderings are measured against nothing better.
ASSUMED_UNITS = {torch.float64: 8.0}
GAUSSIAN_PERCENTILE = 3.3
"""99.9th percentile of |x| over its RMS, for normal x."""


@dataclasses.dataclass(frozen=True)
class ErrorScale:
    """An error's size: its RMS and its 99.9th percentile."""

    rms: float
    percentile: float

    def or_larger(self, other: ErrorScale) -> ErrorScale:
        """The larger of each."""
        return ErrorScale(max(self.rms, other.rms), max(self.percentile, other.percentile))


@dataclasses.dataclass(frozen=True)
class Expected:
    """What one floating-point output must be."""

    dtype: torch.dtype
    """The output's own, real or complex."""
    shape: tuple[int, ...]
    """The output's own."""
    oracle: torch.Tensor
    """`[elements]` float64, or float32 where there is no finer; complex as pairs."""
    signal_rms: float
    """R."""
    scales: dict[str, ErrorScale]
    """`native`, `tf32`, `bf16`: error of the reference, as is and with rounded inputs."""
    native_classes: torch.Tensor | None
    """`[elements]` int8: what the reference gave, where that differs from the oracle."""
    is_finite: bool
    """Whether every element of the oracle is finite as `dtype` can hold it."""

    @property
    def unit(self) -> float:
        """Unit roundoff of `dtype`."""
        return unit_roundoff(self.dtype)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How one output compares."""

    ratios: dict[str, float]
    """By name of scale."""
    elementwise_ok: dict[str, bool]
    """By name of scale."""
    bad_share: float
    """Share of elements outside the native bound."""
    first_bad: int | None
    """Flat index of the first of them."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Unit roundoff of a dtype; of a complex one, that of its parts."""
    return UNIT_ROUNDOFF[str(REAL_OF.get(dtype, dtype)).removeprefix("torch.")]


def flatten(values: torch.Tensor) -> torch.Tensor:
    """`[elements]` in row-major order; complex numbers as pairs of real ones."""
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj().contiguous())
    return values.reshape(-1)


def spans(count: int) -> Iterator[slice]:
    """Slices of at most `CHUNK_ELEMENTS` over `count` elements."""
    for start in range(0, count, CHUNK_ELEMENTS):
        yield slice(start, min(start + CHUNK_ELEMENTS, count))


def _norm(values: torch.Tensor) -> float:
    """Root of the sum of squares in float64; not finite if any element is not."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def signal_rms(oracle: torch.Tensor, dtype: torch.dtype) -> float:
    """R, over elements finite in `dtype`."""
    if oracle.numel() and all_finite(oracle, dtype):
        return _norm(oracle) / math.sqrt(oracle.numel())
    total, count = 0.0, 0
    for span in spans(oracle.numel()):
        part = oracle[span].double()
        finite = classes_as(part, dtype) == 0
        total += float(torch.where(finite, part, 0.0).square().sum())
        count += int(finite.sum())
    return math.sqrt(total / count) if count else 0.0


def error_scale(values: torch.Tensor, oracle: torch.Tensor) -> ErrorScale:
    """How far `values` are from the oracle, both flat, over elements finite in both."""
    total, count = 0.0, 0
    for span in spans(oracle.numel()):
        error = values[span].double() - oracle[span].double()
        norm = _norm(error)
        if math.isfinite(norm):
            total += norm**2
            count += error.numel()
            continue
        finite = torch.isfinite(error)
        total += float(torch.where(finite, error, 0.0).square().sum())
        count += int(finite.sum())
    if not count:
        return ErrorScale(0.0, 0.0)
    step = -(-oracle.numel() // SAMPLE_ELEMENTS)
    sample = (values[::step].double() - oracle[::step].double()).abs()
    sample = sample[torch.isfinite(sample)]
    rank = max(1, int(0.999 * sample.numel()))
    # `kthvalue` is one block's work on a GPU.
    largest = sample.topk(sample.numel() - rank + 1).values
    percentile = float(largest[-1]) if sample.numel() else 0.0
    return ErrorScale(math.sqrt(total / count), percentile)


def expect(
    native: torch.Tensor,
    oracle: torch.Tensor,
    finer: bool = True,
    rounded: dict[str, torch.Tensor] | None = None,
) -> Expected:
    """What a candidate's output is held to.

    Args:
        native: the reference's output, any shape.
        oracle: the same computed in float64; float32 where that failed.
        finer: whether the oracle is of higher precision than `native`.
        rounded: the reference's outputs with inputs and weights rounded: `tf32`, `bf16`.
    """
    line, flat = flatten(oracle), flatten(native)
    level = signal_rms(line, native.dtype)
    assumed = ASSUMED_UNITS.get(REAL_OF.get(native.dtype, native.dtype), 1.0)
    least = assumed * unit_roundoff(native.dtype) * level
    own = ErrorScale(least, GAUSSIAN_PERCENTILE * least)
    if finer:
        own = error_scale(flat, line)
    scales = {"native": own, "tf32": own, "bf16": own}
    for name, values in (rounded or {}).items():
        scales[name] = own.or_larger(error_scale(flatten(values), line))
    finite = all_finite(line, native.dtype)
    kept = None
    if not (finite and all_finite(flat, native.dtype)):
        kept = _classes_apart(flat, line, native.dtype)
    return Expected(native.dtype, tuple(native.shape), line, level, scales, kept, finite)


def _classes_apart(
    native: torch.Tensor, oracle: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor | None:
    """The native classes, where any differs from the oracle's."""
    seen = [classes(native[span].double()) for span in spans(native.numel())]
    wanted = [classes_as(oracle[span], dtype) for span in spans(native.numel())]
    differs = any(not torch.equal(*pair) for pair in zip(seen, wanted, strict=True))
    return torch.cat(seen) if differs else None


def compare(expected: Expected, values: torch.Tensor) -> Comparison:
    """Hold a candidate's output, of the expected dtype and shape, to the rule."""
    flat, count = flatten(values), expected.oracle.numel()
    floor = expected.unit * expected.signal_rms
    bad_counts = dict.fromkeys(expected.scales, 0)
    total, finite_count = 0.0, 0
    first_bad: int | None = None
    for span in spans(count):
        square = _square_if_all_good(expected, expected.oracle[span], flat[span])
        if square is not None:
            total += square
            finite_count += span.stop - span.start
            continue
        oracle, got = expected.oracle[span].double(), flat[span].double()
        agree, finite = _agreement(expected, oracle, got, span)
        error = torch.where(finite, (got - oracle).abs(), 0.0)
        total += float(error.square().sum())
        finite_count += int(finite.sum())
        relative = torch.where(finite, 8 * expected.unit * oracle.abs(), 0.0)
        for name, scale in expected.scales.items():
            bound = relative + _bound(expected, scale)
            bad = ~agree | (error > bound)
            bad_count = int(bad.sum())
            bad_counts[name] += bad_count
            if bad_count and name == "native" and first_bad is None:
                first_bad = span.start + int(bad.nonzero()[0, 0])
    rms = math.sqrt(total / finite_count) if finite_count else 0.0
    return Comparison(
        ratios={n: _ratio(rms, max(s.rms, floor / 4)) for n, s in expected.scales.items()},
        elementwise_ok={name: bad == 0 for name, bad in bad_counts.items()},
        bad_share=bad_counts["native"] / count if count else 0.0,
        first_bad=first_bad,
    )


def _bound(expected: Expected, scale: ErrorScale) -> float:
    """The part of the elementwise bound that is the same for every element."""
    return max(8 * expected.unit * expected.signal_rms, 16 * scale.percentile)


def _square_if_all_good(
    expected: Expected, oracle: torch.Tensor, got: torch.Tensor
) -> float | None:
    """The sum of squared errors if all is finite and clearly in every bound; None if in doubt."""
    if not expected.is_finite:
        return None
    error = (got.double() - oracle.double()).abs_()
    norm = _norm(error)
    if not math.isfinite(norm):
        return None
    excess = float(error.sub_(oracle.abs(), alpha=8 * expected.unit).max())
    least = min(_bound(expected, scale) for scale in expected.scales.values())
    # Taken off here and added there, the relative part rounds otherwise.
    return norm**2 if excess <= least * (1 - 1e-9) else None


def _agreement(
    expected: Expected, oracle: torch.Tensor, got: torch.Tensor, span: slice
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the classes match, and where both sides are finite."""
    wanted, seen = classes_as(oracle, expected.dtype), classes(got)
    agree = wanted == seen
    if expected.native_classes is not None:
        # The reference itself overflowed here: giving what it gives is right too.
        own = expected.native_classes[span]
        agree |= (own != 0) & (own == seen)
    return agree, (wanted == 0) & (seen == 0)


def _ratio(error: float, scale: float) -> float:
    if error == 0.0:
        return 0.0
    return min(error / scale, MAX_RATIO) if scale else MAX_RATIO


def describe(values: torch.Tensor, flat_index: int) -> str:
    """One element as text."""
    element = flatten(values)[flat_index]
    if element.dtype.is_floating_point:
        return f"{float(element):.9g}"
    return str(element.item())
