"""What a process may do by what it is: capabilities, user, no_new_privs, ties to its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from egg_mcp.sandbox.worker.isolation import syscalls

CAP_SETUID = 7
CAP_SETPCAP = 8
CAP_SYS_ADMIN = 21

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_GET_SECCOMP = 21
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_NO_NEW_PRIVS = 39
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_HIGHEST_CAPABILITY = 63
_SECCOMP_FILTERING = 2


def die_with_parent(death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send the signal when the thread that forked this process ends.

    A change of user clears this: ask again afterwards. The caller checks that the parent had
    not ended before.

    Raises:
        OSError: refused.
    """
    syscalls.prctl(_PR_SET_PDEATHSIG, death_signal)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own.

    Raises:
        OSError: refused.
    """
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may look into this one, and /proc/self is its own.

    Raises:
        OSError: refused.
    """
    syscalls.prctl(_PR_SET_DUMPABLE, int(dumpable))


def forbid_new_privileges() -> None:
    """Make set-user-id programs and file capabilities mean nothing from now on.

    Raises:
        OSError: refused.
    """
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def capabilities() -> tuple[int, int, int]:
    """Effective, permitted and inheritable capabilities of this thread, as bit sets.

    Raises:
        OSError: refused.
    """
    data = ctypes.create_string_buffer(24)
    syscalls.call("capget", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), data)
    words = struct.unpack("6I", data.raw)
    effective, permitted, inheritable = (words[i] | words[i + 3] << 32 for i in range(3))
    return effective, permitted, inheritable


def has_capability(which: int) -> bool:
    """Whether the capability is in effect."""
    return bool(capabilities()[0] >> which & 1)


def clear_bounding_set() -> None:
    """Take every capability from what programs started later can get.

    Without CAP_SETPCAP the set cannot be changed; no_new_privs then does the same work.

    Raises:
        OSError: refused although the process holds CAP_SETPCAP.
    """
    syscalls.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    if not has_capability(CAP_SETPCAP):
        return
    for each in _known_capabilities():
        syscalls.prctl(_PR_CAPBSET_DROP, each)


def drop_capabilities() -> None:
    """Give every capability of this thread up, for good.

    Raises:
        OSError: refused.
    """
    syscalls.call("capset", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def become(uid: int) -> None:
    """Change to the user and the group of that number, with no other groups.

    Raises:
        OSError: refused.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def bounding_set() -> int:
    """Capabilities that programs started from here could get, as a bit set."""
    return sum(1 << each for each in _known_capabilities() if _is_bounded(each))


def is_filtered() -> bool:
    """Whether a seccomp filter judges this thread's calls."""
    return syscalls.prctl(_PR_GET_SECCOMP) == _SECCOMP_FILTERING


def gains_nothing() -> bool:
    """Whether no_new_privs is set."""
    return syscalls.prctl(_PR_GET_NO_NEW_PRIVS) == 1


def _known_capabilities() -> list[int]:
    """The numbers that this kernel knows."""
    known: list[int] = []
    for each in range(_HIGHEST_CAPABILITY + 1):
        try:
            syscalls.prctl(_PR_CAPBSET_READ, each)
        except OSError:
            break
        known.append(each)
    return known


def _is_bounded(capability: int) -> bool:
    return syscalls.prctl(_PR_CAPBSET_READ, capability) == 1
