"""The process groups of running workers: none outlives this process, however it ends.

A worker asks the kernel to die with this process, but what a candidate has started in turn does
not. So while there are workers, a small shell beside us knows their groups; when this process
ends, also by `kill -9`, its standard input ends, it kills them and removes their folders.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

_LAST_WILL = """
while read -r what rest; do
  case $what in
    groups) groups=$rest ;;
    folder) folders="$folders$rest
" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
IFS="
"
for folder in $folders; do rm -rf -- "$folder"; done
"""
_END_S = 5.0

_folders: dict[int, Path | None] = {}
_shells: list[subprocess.Popen[bytes]] = []


def add(group: int, folder: Path | None) -> None:
    """A process group of ours runs, in that folder if it has one."""
    if not _shells:
        # Where there is no shell, the kernel's own signal has to do.
        with contextlib.suppress(OSError):
            _shells.append(_shell())
    _folders[group] = folder
    # One line, one folder: a path with a line break would name another to be removed.
    if folder is not None and "\n" not in str(folder):
        _tell(f"folder {folder}")
    _tell(_all_groups())


def discard(group: int) -> None:
    """That group is gone."""
    _folders.pop(group, None)
    _tell(_all_groups())
    if not _folders and _shells:
        shell = _shells.pop()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            shell.communicate(timeout=_END_S)


def kill_all() -> None:
    """Kill every group at once and remove its folder. For signal handlers: no waiting."""
    for group in _folders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for folder in filter(None, _folders.values()):
        shutil.rmtree(folder, ignore_errors=True)


def _shell() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _LAST_WILL],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _all_groups() -> str:
    return f"groups {' '.join(map(str, _folders))}"


def _tell(line: str) -> None:
    for shell in _shells:
        if shell.stdin is not None:
            # Somebody may have killed it.
            with contextlib.suppress(OSError):
                os.write(shell.stdin.fileno(), f"{line}\n".encode())
