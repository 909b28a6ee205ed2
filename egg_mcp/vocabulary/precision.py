"""Precision: what error a session allows, and what error a candidate shows."""

from __future__ import annotations

from enum import StrEnum


class PrecisionPolicy(StrEnum):
    """How much error a session accepts; fixed when it opens, named in every result."""

    STRICT = "strict"
    """An error like the reference's own."""
    TF32_OK = "tf32_ok"
    """An error as if float32 inputs and weights were rounded to TF32."""
    LOWP_OK = "lowp_ok"
    """An error as if float32 inputs and weights were rounded to bfloat16."""


class PrecisionClass(StrEnum):
    """What the zero-mean trial says about a candidate's arithmetic."""

    SAME_PRECISION = "same_precision"
    TF32_LIKE = "tf32_like"
    BF16_LIKE = "bf16_like"
    WRONG = "wrong"
    NOT_CLASSIFIED = "not_classified"
