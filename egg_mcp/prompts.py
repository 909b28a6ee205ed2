"""The prompts: the conductor, and the roles of EGG's agents, filled from the live session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from egg_mcp.errors import EggError
from egg_mcp.service import Egg
from egg_mcp.session.brief import StageBrief
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.vocabulary.session import SessionRecord
from egg_mcp.vocabulary.stage import Stage

EggContext = Context[Egg]

Reference = Annotated[
    str,
    Field(
        description="The reference file, or a description of the module to make faster.",
        max_length=4_000,
    ),
]
SessionId = Annotated[str, Field(description="Handle of the session.")]

_FLOW = """\
Make this PyTorch module faster with the egg tools: {reference}

1. If it is not in KernelBench form yet (class Model, get_inputs, get_init_inputs), write it so, with
   real sizes and dtypes, and keep what it computes.
2. design_algorithm(reference_file=... or reference_code=...) opens a session and returns the brief.
   Write two or more structurally different kernels and hand each in.
3. tune_parallel_mapping, then tune_tiling, then optimize_memory: ask for the brief with session_id
   alone, hand in kernels made from the champion (parent=...), name the guidelines you followed.
4. verify_and_benchmark(session_id), then export_kernel(session_id).

After each call do what next_step says. status running means: call get_job. A verdict is final: mend
what it names, do not argue with it. Report the server's figures, never your own estimate; without a
GPU there is no speedup to report."""

_NO_SESSION = "There is no session {session_id!r} here: {reason}"


@dataclass(frozen=True, slots=True)
class Role:
    """One of EGG's agents."""

    name: str
    title: str
    stage: Stage | None
    duty: str
    hand_in: str


ROLES = (
    Role(
        "design_agent",
        "Design agent: algorithmic structure",
        Stage.DESIGN_ALGORITHM,
        "You settle the structure: which kernels, what each fuses, which algorithm. Hand in two or "
        "more structurally different kernels, then refine the best without changing what it "
        "computes.",
        "design_algorithm(session_id, kernel_code, parent, rationale, guidelines_applied)",
    ),
    Role(
        "mapping_agent",
        "Mapping agent: grid and work split",
        Stage.TUNE_PARALLEL_MAPPING,
        "You map the frozen structure onto the processors. You change the grid, program-to-work "
        "mapping and work split, nothing else.",
        "tune_parallel_mapping(session_id, kernel_code, parent, rationale, guidelines_applied)",
    ),
    Role(
        "tiling_agent",
        "Tiling agent: block shapes",
        Stage.TUNE_TILING,
        "You choose block shapes and the loops over them, nothing else.",
        "tune_tiling(session_id, kernel_code, parent, rationale, guidelines_applied)",
    ),
    Role(
        "memory_agent",
        "Memory agent: access, caching, pipelining",
        Stage.OPTIMIZE_MEMORY,
        "You make each access cheap and hide the rest: access order, masks, alignment, num_warps, "
        "num_stages.",
        "optimize_memory(session_id, kernel_code, parent, rationale, guidelines_applied)",
    ),
    Role(
        "profile_agent",
        "Profile agent: what limits the champion",
        None,
        "You write no code. From the verdicts, timings and least bytes below, name the one "
        "bottleneck of the champion, the evidence for it in numbers, and which stage treats it.",
        "your answer goes to the agent of that stage as bottleneck and modification plan",
    ),
    Role(
        "debug_agent",
        "Debug agent: why the last candidate failed",
        None,
        "You mend the last failed candidate with the smallest change that can work, from its "
        "verdict: what failed, the first bad element, the likely cause. Do not tune.",
        "the tool of the session's current stage, parent = the failed candidate",
    ),
)


def register_prompts(server: MCPServer[Egg]) -> None:
    """Add the prompts to the server."""
    server.prompt(title="Optimize a kernel: the whole flow")(optimize_kernel)
    for role in ROLES:
        server.prompt(name=role.name, title=role.title, description=role.duty)(_prompt_of(role))


async def optimize_kernel(reference: Reference) -> str:
    """Take a PyTorch module through all stages, from reference to exported kernel."""
    return _FLOW.format(reference=reference)


def _prompt_of(role: Role):  # noqa: ANN202 - a closure whose type is its signature
    async def prompt(session_id: SessionId, ctx: EggContext) -> str:
        egg: Egg = ctx.request_context.lifespan_context
        try:
            session = egg.session(session_id, LOCAL_PRINCIPAL)
        except EggError as error:
            return _NO_SESSION.format(session_id=session_id, reason=error)
        brief = await egg.brief(session, role.stage or session.stage)
        if brief is None:
            return "The worker side has not said yet what it runs on; ask again in a moment."
        extra = _last_failure(egg, session) if role.name == "debug_agent" else ""
        return _role_text(role, session, brief, extra)

    return prompt


def _role_text(role: Role, session: SessionRecord, brief: StageBrief, extra: str) -> str:
    champions = [
        f"candidate {line.candidate}: {line.verdict}, "
        + (f"{line.speedup_vs_eager}x vs eager" if line.speedup_vs_eager else "not timed")
        + f"; {line.change}"
        for line in brief.champions
    ]
    tried = [
        f"candidate {line.candidate}: {line.verdict}; {line.finding}" for line in brief.attempts
    ]
    guidelines = [f"{line.id}: {line.rule}" for line in brief.guidelines]
    parts = (
        f"You are the {role.title.split(':')[0].lower()} of session {session.session_id}.",
        role.duty,
        f"Problem: {brief.problem}.",
        f"Device: {brief.device}.",
        f"Precision: {brief.precision}",
        _section("Decided", brief.decided),
        _section("Champions, best first", champions),
        _section("Tried in this stage", tried),
        _section("Dead ends", brief.lessons),
        _section("You may change", brief.may_change if role.stage else ()),
        _section("You must not change", brief.must_not_change if role.stage else ()),
        _section("Guidelines (get_guidelines has the pages)", guidelines),
        extra,
        f"Hand in by: {role.hand_in}.",
        f"Stop when: {brief.stop_when}.",
    )
    return "\n\n".join(part for part in parts if part)


def _section(title: str, lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join((f"{title}:", *(f"- {line}" for line in lines))) if lines else ""


def _last_failure(egg: Egg, session: SessionRecord) -> str:
    failed = [
        attempt
        for attempt in egg.standing(session.session_id).attempts
        if attempt.verdict is not None and not attempt.is_correct
    ]
    if not failed or failed[-1].verdict is None:
        return "No candidate has failed."
    verdict = failed[-1].verdict
    return (
        f"Last failure: candidate {failed[-1].candidate.number}, {verdict.status.value}: "
        f"{verdict.explanation[:1500]}\nLikely cause: {verdict.likely_cause or 'not known'}\n"
        f"Its source: egg://sessions/{session.session_id}/candidates/"
        f"{failed[-1].candidate.number}"
    )
