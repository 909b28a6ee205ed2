"""Canaries: folders with secrets in them, where nothing may be read or change."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.attacks.secret import make_secret

_NAMES = ("home", "state", "workspace")
_FILES = {"home": "credentials", "state": "egg.sqlite3", "workspace": "kernel.py"}
_LASTING = "/var/tmp"  # noqa: S108 - not /tmp, which a box has of its own

Contents = dict[Path, bytes]


@dataclass(frozen=True, slots=True)
class Canaries:
    """One folder in the home folder; the others where the system keeps what is temporary.

    Attributes:
        home: in the user's home folder.
        root: holds `state`, `workspace` and `temp`, where this server's temporary files are.
    """

    home: Path
    root: Path

    @classmethod
    def make(cls) -> Canaries:
        """Make the folders and write the secrets."""
        where = _LASTING if Path(_LASTING).is_dir() else None
        root = Path(tempfile.mkdtemp(prefix="egg-escapes-", dir=where))
        try:
            home = Path(tempfile.mkdtemp(prefix=".egg-escapes-", dir=Path.home()))
        except OSError:
            home = root / "home"
        made = cls(home, root)
        for name in _NAMES:
            made.folder(name).mkdir(exist_ok=True)
            made.file(name).write_text(make_secret(name), encoding="ascii")
        (root / "temp").mkdir()
        return made

    def folder(self, name: str) -> Path:
        """Of the canary: `home`, `state`, `workspace`."""
        return self.home if name == "home" else self.root / name

    def file(self, name: str) -> Path:
        """The one with the secret."""
        return self.folder(name) / _FILES[name]

    @property
    def temp(self) -> Path:
        """Where the server's temporary files are."""
        return self.root / "temp"

    def contents(self) -> Contents:
        """Every file and what is in it."""
        found: Contents = {}
        for name in _NAMES:
            for path in self.folder(name).rglob("*"):
                with contextlib.suppress(OSError):
                    if path.is_file():
                        found[path] = path.read_bytes()
        return found

    def restore(self, before: Contents) -> str:
        """Put back what is not as it was; returns that, in words."""
        after = self.contents()
        new = [path for path in after if path not in before]
        other = [path for path, data in before.items() if after.get(path) != data]
        for path in new:
            path.unlink(missing_ok=True)
        for path in other:
            path.write_bytes(before[path])
        said = [f"made {path}" for path in new] + [f"changed {path}" for path in other]
        return "; ".join(said)

    def remove(self) -> None:
        """Remove all folders."""
        for folder in (self.home, self.root):
            shutil.rmtree(folder, ignore_errors=True)
