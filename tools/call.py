"""ToolCall: one call's way to the application and back to its client."""

from __future__ import annotations

from mcp.server.mcpserver import Context

from egg_mcp.service import Egg
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.vocabulary.job import Job

DEFAULT_WAIT_S = 20.0

EggContext = Context[Egg]


class ToolCall:
    """The application, the caller, and how to keep the caller informed."""

    def __init__(self, context: EggContext) -> None:
        self._context = context
        self.egg: Egg = context.request_context.lifespan_context
        self.principal = LOCAL_PRINCIPAL

    async def wait(self, job: Job, wait_s: float) -> Job:
        """Wait for the job, at most so long, with a progress message each second."""

        async def heartbeat(beat: float, progress: str) -> None:
            # Middleware does not see progress messages, so the text is cleaned here.
            text = progress.encode("utf-8", "replace").decode("utf-8")
            await self._context.report_progress(beat, None, text)

        return await self.egg.jobs.wait(job.job_id, self.principal, wait_s, heartbeat)
