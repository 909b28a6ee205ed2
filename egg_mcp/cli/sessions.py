"""`egg-mcp sessions`: the sessions of a state folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from egg_mcp.cli.options import settings_of
from egg_mcp.session.standing import Standing, attempt_of
from egg_mcp.settings import LOCAL_PRINCIPAL
from egg_mcp.store import Store
from egg_mcp.vocabulary.session import SessionRecord

_MOST = 1_000


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print one line a session, newest first."""
    settings = settings_of(options, environment)
    store = Store.open(settings.state_dir)
    try:
        sessions = store.sessions.list(LOCAL_PRINCIPAL, _MOST)
        print(f"{len(sessions)} sessions in {settings.state_file}")
        for session in sessions:
            print(_line(store, session))
    finally:
        store.close()
    return 0


def _line(store: Store, session: SessionRecord) -> str:
    verdicts = store.verdicts.of_session(session.session_id)
    standing = Standing(
        tuple(
            attempt_of(candidate, verdicts.get(candidate.number, ()))
            for candidate in store.candidates.of_session(session.session_id)
        )
    )
    champion = standing.champion
    if champion is None:
        lead = "no correct candidate"
    else:
        speed = f"{champion.speedup:.2f}x vs eager" if champion.speedup else "not timed"
        lead = f"champion {champion.candidate.number}, {speed}"
    return (
        f"{session.session_id}  {session.created_at[:16]}  {session.stage.value:<22} "
        f"{len(standing.attempts):>4} candidates  {lead}  {session.title}"
    )
