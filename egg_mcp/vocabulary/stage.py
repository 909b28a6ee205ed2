"""Stage: the five steps of the method, their order, and what each may change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """One step of the method; its value is the name of the tool that does it."""

    DESIGN_ALGORITHM = "design_algorithm"
    TUNE_PARALLEL_MAPPING = "tune_parallel_mapping"
    TUNE_TILING = "tune_tiling"
    OPTIMIZE_MEMORY = "optimize_memory"
    VERIFY_AND_BENCHMARK = "verify_and_benchmark"

    @property
    def following(self) -> Stage | None:
        """The next stage, None after the last.

        >>> Stage.DESIGN_ALGORITHM.following
        <Stage.TUNE_PARALLEL_MAPPING: 'tune_parallel_mapping'>
        """
        stages = list(Stage)
        at = stages.index(self) + 1
        return stages[at] if at < len(stages) else None


SUBMITTING_STAGES = tuple(stage for stage in Stage if stage is not Stage.VERIFY_AND_BENCHMARK)
"""The stages that take candidates into the champion pool."""


@dataclass(frozen=True, slots=True)
class StageCharter:
    """What a stage is for. All in words for a model to read."""

    objective: str
    may_change: tuple[str, ...]
    must_not_change: tuple[str, ...]
    stop_when: str


CHARTERS: dict[Stage, StageCharter] = {
    Stage.DESIGN_ALGORITHM: StageCharter(
        objective=(
            "Find the algorithmic structure: which kernels there are, what each computes and "
            "which bytes cross memory between them. It sets the ceiling, so try two or more "
            "structurally different kernels and refine the best before you tune."
        ),
        may_change=(
            (
                "everything: the number of kernels, what is fused, the algorithm, the order of "
                "summation, the precision of dot products within the session's policy"
            ),
        ),
        must_not_change=("what the module computes, its outputs' dtypes, shapes and structure",),
        stop_when=(
            "a correct kernel reads and writes little more than the least bytes, or two further "
            "structures brought no gain"
        ),
    ),
    Stage.TUNE_PARALLEL_MAPPING: StageCharter(
        objective=(
            "Map the frozen structure onto the processors: the grid, which program does which "
            "part of the work, and how many programs there are."
        ),
        may_change=(
            "the grid and its dimensions",
            "the mapping from program_id to work, swizzles, persistent loops",
            "how work is split between programs (split-K, split rows)",
        ),
        must_not_change=("the kernels and what they fuse", "block shapes", "num_warps, num_stages"),
        stop_when="every processor has work in every wave, or three attempts brought no gain",
    ),
    Stage.TUNE_TILING: StageCharter(
        objective="Choose the block shapes and the loops over them.",
        may_change=(
            "block shapes (BLOCK_*), powers of two",
            "loops over blocks and what each iteration holds in registers",
        ),
        must_not_change=("the kernels and what they fuse", "the grid's meaning"),
        stop_when="neighbouring block shapes are all slower, or three attempts brought no gain",
    ),
    Stage.OPTIMIZE_MEMORY: StageCharter(
        objective="Make each access cheap and hide what is left of its latency.",
        may_change=(
            "access order, vector width, masks, alignment hints, cache hints",
            "layout and dtype conversions inside the kernel",
            "num_warps, num_stages, loop pipelining",
        ),
        must_not_change=("the kernels and what they fuse", "the grid", "block shapes"),
        stop_when="the kernel runs near the memory or compute roof, or three attempts brought none",
    ),
    Stage.VERIFY_AND_BENCHMARK: StageCharter(
        objective="Judge the champion at full rigor and measure it against live baselines.",
        may_change=(),
        must_not_change=("the candidate's code",),
        stop_when="the final verdict is a pass; then export it",
    ),
}
