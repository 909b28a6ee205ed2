"""Where evaluations run: today on this machine (`LocalExecutor`)."""

from egg_mcp.executor.contract import Executor, Report
from egg_mcp.executor.local import LocalExecutor

__all__ = ["Executor", "LocalExecutor", "Report"]
