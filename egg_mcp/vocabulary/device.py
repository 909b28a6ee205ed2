"""DeviceFacts: what the worker side says it runs on."""

from __future__ import annotations

from typing import Literal

from egg_mcp.vocabulary.record import Record


class DeviceFacts(Record):
    """One device and the software that drives it, as the worker found them."""

    kind: Literal["cuda", "emulated"]
    """`cuda`: kernels run on a GPU. `emulated`: the Triton interpreter on the CPU; no speed."""
    name: str
    """The GPU's name, or `CPU (Triton interpreter)`."""
    uuid: str | None = None
    """The GPU's own id, the same in every process and container; None when emulated."""
    arch: str | None = None
    """Compute capability as `sm_90`; None when emulated."""
    multiprocessors: int | None = None
    """Streaming multiprocessors."""
    memory_bytes: int | None = None
    """Device memory in all."""
    l2_bytes: int | None = None
    """L2 cache."""
    shared_memory_per_block_bytes: int | None = None
    """The most one block may ask for, opt-in included."""
    driver: str | None = None
    """CUDA version that torch was built for; None when emulated."""
    python: str
    """Version of the worker's Python."""
    torch: str
    """Version of the worker's torch."""
    triton: str | None
    """Version of the worker's triton; None where it has none."""
    sandbox: str = "not known"
    """What stands between the candidate and this machine."""
