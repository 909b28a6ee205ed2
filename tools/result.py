"""What every tool returns: a summary and the next call first, then the data."""

from __future__ import annotations

from typing import Literal

from egg_mcp.service.overview import SessionLine
from egg_mcp.session.brief import AttemptLine, StageBrief
from egg_mcp.vocabulary.device import DeviceFacts
from egg_mcp.vocabulary.fault import Fault
from egg_mcp.vocabulary.precision import PrecisionPolicy
from egg_mcp.vocabulary.problem import Screening
from egg_mcp.vocabulary.record import Record
from egg_mcp.vocabulary.session import StageEntry
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Verdict

Detail = Literal["concise", "full"]
ReportStatus = Literal["brief", "running", "done", "failed", "cancelled", "interrupted"]


class ToolResult(Record):
    """The fields that every result starts with."""

    summary: str
    """What happened, in plain words, with the numbers: enough on its own to decide."""
    next_step: str
    """The exact next call."""
    session_id: str | None = None
    """Handle of the session; pass it to every stage tool. None where there is no session."""
    stage: Stage | None = None
    """The stage this is about."""
    warnings: tuple[str, ...] = ()
    """What did not stop the work but must not be missed."""


class VerdictView(Record):
    """A verdict, shortened; `detail="full"` has all of it."""

    status: str
    """`pass`, `emulated_pass`, `wrong`, `build_failed`, `crashed`, `timed_out`, ..."""
    explanation: str
    """One or two sentences with the numbers."""
    likely_cause: str | None
    """What most often causes this; None when it holds."""
    fault: Fault | None
    """How it ended early, in one word, `hang_on_device` say; None where it ran to its end."""
    precision_policy: PrecisionPolicy
    """What error was allowed."""
    precision_class: str
    """What error was seen on zero-mean inputs."""
    custom_kernel: str
    """`none`, `partial`, `all` or `unknown`: whether own kernels do the work."""
    trials: tuple[str, ...]
    """One line a trial."""
    speedup_vs_eager: float | None
    """Median paired ratio against live eager PyTorch; None when not measured or not trusted."""
    ci95: tuple[float, float] | None
    """Its 95 % interval; None as above."""
    candidate_ms: float | None
    """Median time of a call; None when not measured."""
    eager_ms: float | None
    """The same for the reference; None when not measured."""
    timing: str
    """`faster`, `slower`, `no measurable difference`, `untrusted`, or why nothing was measured."""
    flags: tuple[str, ...]
    """Short remarks that must not be missed."""
    device: str | None
    """What it ran on."""
    sandbox: str | None
    """What stood between it and the machine, and which of eight properties held."""
    printed: str
    """The end of what the candidate printed."""


class StageReport(ToolResult):
    """What a stage tool, `get_job` or `cancel_job` returns."""

    status: ReportStatus
    """`brief`: advice only. `running`: call get_job. Else how the job ended."""
    job_id: str | None = None
    """The job, for get_job and cancel_job; None when nothing runs or ran."""
    candidate: int | None = None
    """Number of the candidate handed in; use it as `parent`."""
    champion: int | None = None
    """Number of the best correct candidate so far."""
    fault: Fault | None = None
    """What ended the job early, when it was no fault of the candidate's."""
    verdict: VerdictView | None = None
    """What was found about the candidate; None while it runs."""
    brief: StageBrief | None = None
    """What to know before writing code for this stage."""
    screening: Screening | None = None
    """What was found about the reference; only when it was refused, or at full detail."""
    full_verdict: Verdict | None = None
    """The whole verdict, at `detail="full"`, what is very long in it cut; raw timing samples stay in
    the store."""


class SessionStatusReport(ToolResult):
    """The list of sessions, or one in full."""

    sessions: tuple[SessionLine, ...] = ()
    """The page of the list, newest first; empty when one session was asked for."""
    total: int = 0
    """Sessions, or candidates of the session, in all."""
    next_offset: int | None = None
    """Pass as `offset` for the next page; None on the last."""
    problem: str | None = None
    """The Problem in numbers."""
    precision: PrecisionPolicy | None = None
    """The session's policy."""
    stages_entered: tuple[StageEntry, ...] = ()
    """Every time a stage was entered, the last twenty."""
    candidates: tuple[AttemptLine, ...] = ()
    """The trajectory in order of submission; `parent` makes it a tree."""
    jobs: tuple[str, ...] = ()
    """The session's jobs, one line each, the last ten."""
    device: DeviceFacts | None = None
    """What code runs on; None when not known yet."""
    state_file: str
    """Where everything is kept."""


class GuidelinePage(Record):
    """One guideline in full."""

    id: str
    """Its id, for `guidelines_applied`."""
    stage: Stage
    """Its stage."""
    title: str
    """Its title."""
    families: tuple[str, ...]
    """Operator families it is for."""
    archs: tuple[str, ...]
    """GPU architectures it is for."""
    preconditions: str
    """When it applies."""
    effect: str
    """What to expect, with its source."""
    body: str
    """Markdown: the rule, why, when not, and a runnable example. Empty in a list."""
    sources: tuple[str, ...]
    """Where the facts come from."""


class GuidelinesReport(ToolResult):
    """Guidelines found."""

    guidelines: tuple[GuidelinePage, ...]
    """With bodies when few enough, else a list to choose from."""
    total: int
    """How many there were."""


class ExportReport(ToolResult):
    """A candidate as a file to use."""

    candidate: int
    """Which."""
    code: str | None
    """The module's source; None when it was written to a file or is too long to send."""
    file: str | None
    """Where it was written; None when it was not."""
    verdict: VerdictView | None
    """What is known about it."""
