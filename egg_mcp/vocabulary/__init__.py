"""The words of the product, as frozen models: no I/O, no torch, no MCP."""
