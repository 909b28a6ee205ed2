"""The arguments that tools share: named, bounded and described alike everywhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from egg_mcp.tools.result import Detail
from egg_mcp.vocabulary.precision import PrecisionPolicy

SessionId = Annotated[
    str,
    Field(description="Handle of the session, from design_algorithm.", max_length=64),
]
ReferenceCode = Annotated[
    str | None,
    Field(
        description=(
            "Python source of the reference in KernelBench form: class Model(nn.Module), "
            "get_inputs(), optional get_init_inputs()."
        )
    ),
]
ReferenceFile = Annotated[
    str | None,
    Field(description="The same as a file inside the workspace (stdio only).", max_length=4096),
]
KernelCode = Annotated[
    str | None,
    Field(
        description=(
            "Python source that defines class ModelNew(nn.Module): Model's constructor, forward "
            "and state_dict names, its work done by Triton kernels."
        )
    ),
]
KernelFile = Annotated[
    str | None,
    Field(description="The same as a file inside the workspace (stdio only).", max_length=4096),
]
Precision = Annotated[
    PrecisionPolicy,
    Field(
        description=(
            "strict: error like the reference's own. tf32_ok / lowp_ok: as if float32 inputs "
            "were rounded to TF32 / bfloat16. Fixed for the session."
        )
    ),
]
Parent = Annotated[
    int | None,
    Field(
        description="Number of the candidate this one was made from; null for a fresh start.", ge=1
    ),
]
Rationale = Annotated[
    str,
    Field(
        description="What you changed and why, in a sentence or two. Kept for later stages.",
        max_length=2_000,
    ),
]
GuidelinesApplied = Annotated[
    list[Annotated[str, Field(max_length=100)]] | None,
    Field(description="Ids of the guidelines you followed.", max_length=20),
]
ReopenReason = Annotated[
    str | None,
    Field(description="Needed only to go back to an earlier stage: why.", max_length=300),
]
DetailLevel = Annotated[
    Detail, Field(description="full adds the whole verdict; concise is enough to go on.")
]
WaitS = Annotated[
    float,
    Field(
        description=(
            "Return after this many seconds even if the job still runs; then call get_job. Keep "
            "it below your client's own limit for one call."
        ),
        ge=0,
        le=50,
    ),
]
Candidate = Annotated[
    int | None, Field(description="Candidate number; null for the champion.", ge=1)
]
JobId = Annotated[str, Field(description="The job, as a tool returned it.", max_length=64)]
