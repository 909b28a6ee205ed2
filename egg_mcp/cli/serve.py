"""`egg-mcp serve`: the server itself."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping

from egg_mcp.cli.options import settings_of
from egg_mcp.server import run_http, run_stdio
from egg_mcp.store import Store


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Serve until the client goes, or a signal comes."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    settings = settings_of(options, environment)
    # Before any client waits for a handshake: a state that cannot be used is said in words.
    Store.open(settings.state_dir).close()
    if settings.transport == "http":
        run_http(settings, options.host, options.port)
    else:
        run_stdio(settings)
    return 0
