"""What SQLite and the operating system report, in the words of `egg_mcp.errors`."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from egg_mcp.errors import StateError, StateFull, StateUnwritable

OTHER_PLACE = "pass --state-dir DIR or set EGG_STATE_DIR"

_UNWRITABLE = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_AUTH,
    )
)
_CORRUPT = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the extended bits; 0 where there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock; worth another try."""
    return primary_code(error) in _BUSY


def state_error(error: sqlite3.Error | OSError, path: Path) -> StateError:
    """The error to raise instead; its message names the path, the reason and the way out."""
    if isinstance(error, OSError):
        reason, is_full = error.strerror or str(error), error.errno in _NO_SPACE
        return _full(path) if is_full else _unwritable(path, reason)
    code = primary_code(error)
    # The shared-memory file beside the state cannot grow: a full disk under another name.
    is_full_shm = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE
    if code == sqlite3.SQLITE_FULL or is_full_shm:
        return _full(path)
    if code in _UNWRITABLE:
        return _unwritable(path, str(error))
    if code in _CORRUPT:
        return damaged(path, str(error))
    if code in _BUSY:
        return StateError(
            f"another process has held the state file {str(path)!r} for over 10 s ({error}); "
            f"try again, end that process, or {OTHER_PLACE}"
        )
    return StateError(f"the state file {str(path)!r} could not be used: {error}")


def damaged(path: Path, reason: str) -> StateError:
    """The file does not hold what it must hold."""
    return StateError(
        f"the state file {str(path)!r} is damaged ({reason}); stop every server that uses it and "
        f"move it away with its -wal and -shm files, or {OTHER_PLACE}"
    )


def _full(path: Path) -> StateFull:
    return StateFull(
        f"no space is left for the state file {str(path)!r}; nothing of the last write was kept. "
        f"Free some space and try again, or {OTHER_PLACE}"
    )


def _unwritable(path: Path, reason: str) -> StateUnwritable:
    return StateUnwritable(f"the state cannot be written at {str(path)!r}: {reason}; {OTHER_PLACE}")
