"""Owner: who a server is, so that others see when it is gone, also after `kill -9`."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from egg_mcp.store.failures import state_error

_FOLDER = "servers"


class Owner:
    """A running server. It holds a lock that the kernel drops when the process ends.

    Attributes:
        owner_id: random, never used again.
    """

    def __init__(self, owner_id: str, file: Path, descriptor: int) -> None:
        self.owner_id = owner_id
        self._file = file
        self._descriptor = descriptor

    @classmethod
    def open(cls, state_dir: Path) -> Owner:
        """Become a server of that state folder; sweep away the marks of those that are gone.

        Raises:
            StateUnwritable: the folder cannot be written, or it knows no file locks.
            StateFull: no space is left there.
        """
        owner_id = secrets.token_hex(8)
        file = _lock_file(state_dir, owner_id)
        # Under its name only once locked: nobody can take it for a dead server's before.
        unborn = file.with_suffix(".new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The descriptor is not inheritable (PEP 446): a worker must not outlive us with it.
            descriptor = os.open(unborn, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unborn.rename(file)
            except BaseException:
                unborn.unlink(missing_ok=True)
                os.close(descriptor)
                raise
            _sweep(state_dir)
        except OSError as error:
            raise state_error(error, file) from error
        return cls(owner_id, file, descriptor)

    def close(self) -> None:
        """Stop being a server. Closing twice does nothing."""
        if self._descriptor >= 0:
            self._file.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def is_alive(state_dir: Path, owner_id: str) -> bool:
    """Whether the server of that id runs; the mark of one that is gone is removed."""
    file = _lock_file(state_dir, owner_id)
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise state_error(error, file) from error
    try:
        # Shared, so that two who ask at once do not take each other for the server.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _sweep(state_dir: Path) -> None:
    for file in (state_dir / _FOLDER).glob("*.lock"):
        is_alive(state_dir, file.stem)


def _lock_file(state_dir: Path, owner_id: str) -> Path:
    return state_dir.absolute() / _FOLDER / f"{owner_id}.lock"
