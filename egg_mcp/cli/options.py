"""From parsed arguments to Settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from egg_mcp.settings import Settings, settings_from


def settings_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings that these arguments and variables name. Raises RequestError."""
    return settings_from(
        environment,
        state_dir=options.state_dir,
        workspace=options.workspace,
        worker_python=options.worker_python,
        device=options.device,
        sandbox=options.sandbox,
        transport=getattr(options, "transport", None),
    )
