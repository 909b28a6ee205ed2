"""Landlock: which files this process and all that it starts may touch, whatever its user may."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from egg_mcp.sandbox.worker.isolation import syscalls

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_FOLDER = 1 << 3
_MAKE_CHARACTER_DEVICE = 1 << 6
_MAKE_BLOCK_DEVICE = 1 << 11
_REFER = 1 << 13
TRUNCATE = 1 << 14
DEVICE_CONTROL = 1 << 15

READ = EXECUTE | READ_FILE | READ_FOLDER
DEVICE = READ_FILE | WRITE_FILE | DEVICE_CONTROL
_FIRST_FILE_RIGHTS = (1 << 13) - 1
_FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL
EVERYTHING = (1 << 16) - 1 & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE | DEVICE_CONTROL)

_TCP_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_VERSION_FLAG = 1
_BENEATH_PATH = 1
_TCP_SINCE, _SCOPES_SINCE = 4, 6
# Bytes of the ruleset's description that each version knows.
_SIZES = ((_SCOPES_SINCE, 24), (_TCP_SINCE, 16), (1, 8))


@dataclass(frozen=True)
class Rule:
    """What may be done at and below a path."""

    path: str
    rights: int


def version() -> int:
    """The kernel's Landlock ABI; 0 where it has none or it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def scopes_signals(abi: int) -> bool:
    """Whether signals and abstract sockets to processes outside are refused."""
    return abi >= _SCOPES_SINCE


def stops_tcp(abi: int) -> bool:
    """Whether binding and connecting over TCP are refused."""
    return abi >= _TCP_SINCE


def apply(rules: Iterable[Rule]) -> None:
    """Allow what the rules say and nothing else, from now on. Needs no_new_privs.

    A path that is not there is left out: there is nothing to allow.

    Raises:
        OSError: the kernel has no Landlock, or a rule is refused.
    """
    abi = version()
    if not abi:
        raise OSError(errno.ENOSYS, "the kernel has no Landlock, or it is switched off")
    rights = _file_rights(abi)
    scopes = _ABSTRACT_SOCKETS_AND_SIGNALS if scopes_signals(abi) else 0
    network = _TCP_BIND_AND_CONNECT if stops_tcp(abi) else 0
    description = struct.pack("QQQ", rights, network, scopes)
    size = next(size for since, size in _SIZES if abi >= since)
    ruleset = syscalls.call("landlock_create_ruleset", description, size, 0)
    try:
        for rule in rules:
            _allow(ruleset, rule, rights)
        syscalls.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _file_rights(abi: int) -> int:
    rights = _FIRST_FILE_RIGHTS
    for right, since in ((_REFER, 2), (TRUNCATE, 3), (DEVICE_CONTROL, 5)):
        if abi >= since:
            rights |= right
    return rights


def _allow(ruleset: int, rule: Rule, known: int) -> None:
    try:
        place = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = rule.rights & known
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FILE_ONLY
        attributes = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
        syscalls.call("landlock_add_rule", ruleset, _BENEATH_PATH, attributes, 0)
    finally:
        os.close(place)
