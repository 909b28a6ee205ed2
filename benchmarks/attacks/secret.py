"""Secret: a word made for one run, which no candidate's output may hold."""

from __future__ import annotations

import re
import secrets

_SHAPE = re.compile(r"egg-secret-([a-z]+)-[0-9a-f]{32}")


def make_secret(whose: str) -> str:
    """A new one.

    >>> len(make_secret("home"))
    48
    """
    return f"egg-secret-{whose}-{secrets.token_hex(16)}"


def secrets_in(text: str) -> tuple[str, ...]:
    """Whose secrets the text gives away, each once.

    >>> secrets_in(f"a {make_secret('state')} b {make_secret('home')}")
    ('state', 'home')
    """
    return tuple(dict.fromkeys(_SHAPE.findall(text)))
