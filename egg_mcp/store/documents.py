"""Records as JSON text and back, with nothing lost on the way."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from egg_mcp.vocabulary.job import Job
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.verdict import Verdict

AnyRecord = TypeVar("AnyRecord", bound=Record)


def dump(record: Record, leave_out: set[str] | None = None) -> str:
    """The record as ASCII JSON.

    Not `model_dump_json`: that turns NaN and Infinity into null, which a `float` field refuses
    when it is read back, and fails on half a surrogate pair, which a candidate may print.
    """
    return json.dumps(record.model_dump(exclude=leave_out), separators=(",", ":"))


def load(kind: type[AnyRecord], text: str) -> AnyRecord:
    """The record that `dump` wrote."""
    return kind.model_validate(json.loads(text))


def without_samples(verdict: Verdict) -> tuple[Verdict, str | None]:
    """The verdict without its raw timing samples, and those as JSON; None where it has none."""
    if verdict.timing is None or not verdict.timing.samples_ms:
        return verdict, None
    bare = verdict.timing.model_copy(update={"samples_ms": {}})
    return verdict.model_copy(update={"timing": bare}), json.dumps(verdict.timing.samples_ms)


def with_samples(verdict: Verdict, samples: str | None) -> Verdict:
    """The opposite of `without_samples`."""
    if samples is None or verdict.timing is None:
        return verdict
    timing: dict[str, Any] = verdict.timing.model_dump()
    timing["samples_ms"] = json.loads(samples)
    full = type(verdict.timing).model_validate(timing)
    return verdict.model_copy(update={"timing": full})


def job_without_samples(job: Job) -> tuple[Job, str | None]:
    """As `without_samples`, for the verdict inside a job."""
    if job.verdict is None:
        return job, None
    bare, samples = without_samples(job.verdict)
    return job.model_copy(update={"verdict": bare}), samples


def job_with_samples(job: Job, samples: str | None) -> Job:
    """The opposite of `job_without_samples`."""
    if job.verdict is None:
        return job
    return job.model_copy(update={"verdict": with_samples(job.verdict, samples)})


def to_bytes(text: str) -> bytes:
    """Text from outside as it is stored; half a surrogate pair is kept as it is."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(data: bytes) -> str:
    """The opposite of `to_bytes`."""
    return data.decode("utf-8", "surrogatepass")
