"""Connection: the one way to the state file; transactions, and errors in our own words."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from egg_mcp.errors import StateError
from egg_mcp.store.failures import is_busy, state_error
from egg_mcp.store.schema import migrate

STATE_FILE_NAME = "egg.sqlite3"
BUSY_TIMEOUT_S = 10.0
_RETRY_AFTER_S = 0.02

# The write-ahead log needs memory that all its users share, so one machine.
_NETWORK_FILE_SYSTEMS = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "gpfs", "lustre", "nfs", "nfs4", "smb3")
)

Row = tuple[Any, ...]


class Connection:
    """A state file, open and migrated. Safe to use from several threads, one at a time inside."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.RLock()
        self._depth = 0
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sqlite = sqlite3.connect(
                file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise state_error(error, file) from error
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        try:
            self._sqlite.execute("PRAGMA synchronous = FULL")
            self._sqlite.execute("PRAGMA foreign_keys = ON")
            self._choose_journal()
            migrate(self._sqlite, self.file)
            self._try_to_write()
        except sqlite3.Error as error:
            raise state_error(error, self.file) from error

    def _choose_journal(self) -> None:
        wanted = "delete" if is_on_network(self.file, _mounts()) else "wal"
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while self._sqlite.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
            try:
                self._sqlite.execute(f"PRAGMA journal_mode = {wanted}")
            except sqlite3.OperationalError as error:
                # SQLite does not wait by itself here when two servers make the file at once.
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(_RETRY_AFTER_S)

    def _try_to_write(self) -> None:
        # A file that may only be read opens, and even begins to write, without a word.
        self._sqlite.execute("BEGIN IMMEDIATE")
        try:
            version = self._sqlite.execute("PRAGMA user_version").fetchone()[0]
            self._sqlite.execute(f"PRAGMA user_version = {version}")
        finally:
            if self._sqlite.in_transaction:
                self._sqlite.execute("ROLLBACK")

    @property
    def in_transaction(self) -> bool:
        """Whether what this thread reads now may still be rolled back."""
        with self._lock:
            return self._depth > 0

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All writes inside are kept together, or none. A block inside a block joins it.

        Raises:
            StateFull: the disk is full; nothing of the block was kept.
            StateUnwritable: the file may not be written.
            StateError: it is damaged, or another process held it for over 10 s.
        """
        with self._lock:
            if self._depth:
                yield
                return
            self.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:
                    self.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def execute(self, sql: str, *values: object) -> int:
        """Run one statement; how many rows it changed."""
        with self._lock:
            try:
                return self._sqlite.execute(sql, values).rowcount
            except sqlite3.Error as error:
                raise state_error(error, self.file) from error

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Every row of one query.

        A value that SQLite cannot hold (a number past 64 bits, half a character) is in no row.
        """
        with self._lock:
            try:
                return cast("list[Row]", self._sqlite.execute(sql, values).fetchall())
            except (OverflowError, UnicodeEncodeError):
                return []
            except sqlite3.Error as error:
                raise state_error(error, self.file) from error

    def row(self, sql: str, *values: object) -> Row | None:
        """The first row of one query."""
        found = self.rows(sql, *values)
        return found[0] if found else None

    def close(self) -> None:
        """Close the file. Closing twice does nothing."""
        with self._lock:
            self._sqlite.close()


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_on_network(file: Path, mounts: str) -> bool:
    """Whether the file's folder is mounted from another machine.

    Args:
        file: an absolute path.
        mounts: the text of `/proc/self/mounts`; empty where there is none.

    >>> is_on_network(Path("/home/ann/egg.sqlite3"), "host:/home /home nfs4 rw 0 0")
    True
    """
    parts = [line.split(" ") for line in mounts.splitlines()]
    folders = {str(folder) for folder in file.resolve().parents}
    matching = [part for part in parts if len(part) > 2 and part[1] in folders]
    if not matching:
        return False
    return max(matching, key=lambda part: len(part[1]))[2] in _NETWORK_FILE_SYSTEMS


def required(row: Row | None, connection: Connection, what: str) -> Row:
    """The row, which must be there.

    Raises:
        StateError: it is not.
    """
    if row is None:
        raise StateError(f"the state file {str(connection.file)!r} holds no {what}")
    return row
