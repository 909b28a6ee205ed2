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
REAL_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
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


def classes(values: torch.Tensor) -> torch.Tensor:
    """Int8 of the same shape: 0 finite, 1 NaN, 2 +inf, 3 -inf."""
    found = torch.isnan(values).to(torch.int8)
    found += 2 * torch.isposinf(values).to(torch.int8)
    found += 3 * torch.isneginf(values).to(torch.int8)
    return found


def spans(count: int) -> Iterator[slice]:
    """Slices of at most `CHUNK_ELEMENTS` over `count` elements."""
    for start in range(0, count, CHUNK_ELEMENTS):
        yield slice(start, min(start + CHUNK_ELEMENTS, count))


def _oracle_classes(oracle: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # 70000 is +inf in float16: the class is that of the value as the output can hold it.
    return classes(oracle.to(REAL_OF.get(dtype, dtype)).double())


def signal_rms(oracle: torch.Tensor, dtype: torch.dtype) -> float:
    """R, over elements finite in `dtype`."""
    total, count = 0.0, 0
    for span in spans(oracle.numel()):
        part = oracle[span].double()
        finite = _oracle_classes(part, dtype) == 0
        total += float(torch.where(finite, part, 0.0).square().sum())
        count += int(finite.sum())
    return math.sqrt(total / count) if count else 0.0


def error_scale(values: torch.Tensor, oracle: torch.Tensor) -> ErrorScale:
    """How far `values` are from the oracle, both flat, over elements finite in both."""
    total, count = 0.0, 0
    for span in spans(oracle.numel()):
        error = (values[span].double() - oracle[span].double()).abs()
        finite = torch.isfinite(error)
        total += float(torch.where(finite, error, 0.0).square().sum())
        count += int(finite.sum())
    if not count:
        return ErrorScale(0.0, 0.0)
    step = -(-oracle.numel() // SAMPLE_ELEMENTS)
    sample = (values[::step].double() - oracle[::step].double()).abs()
    sample = sample[torch.isfinite(sample)]
    rank = max(1, int(0.999 * sample.numel()))
    percentile = float(sample.kthvalue(rank).values) if sample.numel() else 0.0
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
    seen = [classes(flat[span].double()) for span in spans(flat.numel())]
    wanted = [_oracle_classes(line[span], native.dtype) for span in spans(flat.numel())]
    differs = any(not torch.equal(*pair) for pair in zip(seen, wanted, strict=True))
    kept = torch.cat(seen) if differs else None
    shape = tuple(native.shape)
    return Expected(native.dtype, shape, line, level, scales, kept)


def compare(expected: Expected, values: torch.Tensor) -> Comparison:
    """Hold a candidate's output, of the expected dtype and shape, to the rule."""
    flat, count = flatten(values), expected.oracle.numel()
    floor = expected.unit * expected.signal_rms
    bad_counts = dict.fromkeys(expected.scales, 0)
    total, finite_count = 0.0, 0
    first_bad: int | None = None
    for span in spans(count):
        oracle, got = expected.oracle[span].double(), flat[span].double()
        agree, finite = _agreement(expected, oracle, got, span)
        error = torch.where(finite, (got - oracle).abs(), 0.0)
        total += float(error.square().sum())
        finite_count += int(finite.sum())
        relative = torch.where(finite, 8 * expected.unit * oracle.abs(), 0.0)
        for name, scale in expected.scales.items():
            bound = relative + max(8 * floor, 16 * scale.percentile)
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


def _agreement(
    expected: Expected, oracle: torch.Tensor, got: torch.Tensor, span: slice
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the classes match, and where both sides are finite."""
    wanted, seen = _oracle_classes(oracle, expected.dtype), classes(got)
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
