"""The command `egg-mcp`."""

from egg_mcp.cli.command import main

__all__ = ["main"]
