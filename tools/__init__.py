"""The ten tools of EGG MCP: the product's surface, not developer scripts."""

from egg_mcp.tools.registration import register_tools

__all__ = ["register_tools"]
