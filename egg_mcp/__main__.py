"""`python -m egg_mcp`: the same as the command `egg-mcp`."""

from egg_mcp.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
