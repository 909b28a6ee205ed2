"""Record: what every word of the vocabulary is made of."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen model; unknown fields are refused; field docstrings reach the JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def content_hash(text: str) -> str:
    """SHA-256 of the text as UTF-8, in hex: the name of a source in the store.

    >>> content_hash("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def utc_now() -> str:
    """The time now as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
