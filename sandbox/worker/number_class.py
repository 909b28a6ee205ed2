"""NumberClass: which elements are numbers, and which are NaN or infinite."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import torch

REAL_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def classes(values: torch.Tensor) -> torch.Tensor:
    """Int8 of the same shape: 0 finite, 1 NaN, 2 +inf, 3 -inf."""
    found = torch.isnan(values).to(torch.int8)
    found += 2 * torch.isposinf(values).to(torch.int8)
    found += 3 * torch.isneginf(values).to(torch.int8)
    return found


def classes_as(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The classes of the values as an output of that dtype would hold them."""
    # 70000 is +inf in float16: the class is that of the value as the output can hold it.
    return classes(values.to(REAL_OF.get(dtype, dtype)).double())


def all_finite(values: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether every element, flat and real, is finite as `dtype` can hold it; one pass."""
    if not values.numel():
        return True
    # The ends stand for all: rounding keeps order, and NaN comes through.
    wide = values if values.element_size() > 1 else values.float()
    ends = torch.stack(torch.aminmax(wide)).to(REAL_OF.get(dtype, dtype))
    return bool(torch.isfinite(ends.double()).all())
