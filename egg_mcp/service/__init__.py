"""The application: sessions, stages and jobs over store, executor and guidelines. No MCP here."""

from egg_mcp.service.egg import Egg
from egg_mcp.service.job_runner import JobRunner

__all__ = ["Egg", "JobRunner"]
