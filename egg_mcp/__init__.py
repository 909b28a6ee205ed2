"""EGG MCP: turn a PyTorch module into a faster GPU kernel that is proven right."""

__version__ = "0.1.0"
