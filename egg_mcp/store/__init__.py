"""State on disk: one SQLite file that several servers may share, and who they are."""

from egg_mcp.store.jobs import LogPage
from egg_mcp.store.owner import Owner, is_alive
from egg_mcp.store.store import Store

__all__ = ["LogPage", "Owner", "Store", "is_alive"]
