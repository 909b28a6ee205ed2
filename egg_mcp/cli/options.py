"""From parsed arguments to Settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from egg_mcp.settings import Settings, settings_from


def settings_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings that these arguments and variables name. Raises RequestError."""
    return settings_from(
        environment, **{name: getattr(options, name, None) for name in Settings.model_fields}
    )
