"""Rounding: float32 values cut to what tensor cores see of them."""

from __future__ import annotations

import torch

TF32_DROPPED_BITS = 13


def to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Float32 rounded to a 10-bit mantissa, to nearest even; non-finite values as they are."""
    bits = values.contiguous().view(torch.int32)
    last_kept = (bits >> TF32_DROPPED_BITS) & 1
    half = (1 << (TF32_DROPPED_BITS - 1)) - 1
    rounded = (bits + last_kept + half) & ~((1 << TF32_DROPPED_BITS) - 1)
    return torch.where(torch.isfinite(values), rounded.view(torch.float32), values)


def to_bf16(values: torch.Tensor) -> torch.Tensor:
    """Float32 rounded through bfloat16."""
    return values.to(torch.bfloat16).to(torch.float32)
