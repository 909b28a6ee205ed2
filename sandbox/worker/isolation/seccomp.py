"""Seccomp: which system calls a box may make. Refusals are errors, never a kill.

A list of what is refused, not of what is allowed: drivers and compilers differ in what they
call, and what a box must not do is known. Calls newer than this list do not exist in a box.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct

from egg_mcp.sandbox.worker.isolation import namespaces, syscalls
from egg_mcp.sandbox.worker.isolation.filter_program import (
    Instruction,
    Steps,
    allow,
    assemble,
    for_call,
    if_any_bit,
    if_at_least,
    if_equal,
    if_more,
    load_argument,
    load_machine,
    load_number,
    mask,
    refuse,
    unless_equal,
    unless_one_of,
)

_REFUSED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("kcmp", "pidfd_getfd", "migrate_pages"),
    # mounts and namespaces
    *("mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "statmount", "listmount", "unshare", "setns"),
    # large parts of the kernel that no kernel on a GPU needs
    *("bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("userfaultfd", "keyctl", "add_key", "request_key", "memfd_secret"),
    *("fanotify_init", "fanotify_mark", "lookup_dcookie", "nfsservctl", "_sysctl", "sysfs"),
    *("uselib", "ustat", "modify_ldt", "lsm_get_self_attr", "lsm_set_self_attr"),
    "lsm_list_modules",
    # files by other ways than their path
    *("open_by_handle_at", "name_to_handle_at"),
    # the machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "acct"),
    *("swapon", "swapoff", "reboot", "syslog", "quotactl", "quotactl_fd", "settimeofday"),
    *("clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "vhangup"),
    *("iopl", "ioperm"),
    # memory and messages that no limit counts and that outlive their maker
    *("shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr"),
)
# Their arguments cannot be judged here. Callers know to fall back.
_NOT_THERE = ("clone3", "openat2")
_LAST_KNOWN = 462

_MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32_CALLS = 0x4000_0000
_SET_ID_BITS = 0o6000
_MODE_ARGUMENTS = {
    "open": 2,
    "creat": 1,
    "openat": 3,
    "mkdir": 1,
    "mkdirat": 2,
    "mknod": 1,
    "mknodat": 2,
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
}
# Typing into another session's terminal (TIOCSTI, TIOCLINUX), loading line disciplines (TIOCSETD).
_TERMINAL_REQUESTS = (0x5412, 0x541C, 0x5423)
_PERSONALITIES = (0, 0xFFFF_FFFF)
_SOCKET_KIND = 0xF
_WITH_CONNECTION = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
_SET_MODE_FILTER = 1


def apply(own_network: bool) -> None:
    """Judge every further call of this thread and of all that it starts. Needs no_new_privs.

    Args:
        own_network: the box has a network namespace and a root of its own. Otherwise unix
            sockets of the host are in reach, whose addresses no filter can see, so connecting
            and sending to an address are refused as a whole.

    Raises:
        OSError: refused, or a machine of a kind that is not known here.
    """
    program = assemble(_steps(own_network))
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    syscalls.call("seccomp", _SET_MODE_FILTER, 0, described)


def _steps(own_network: bool) -> Steps:
    machine = _MACHINES.get(syscalls.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no filter for {syscalls.machine()}")
    not_permitted, not_there = refuse(errno.EPERM), refuse(errno.ENOSYS)
    steps: Steps = [load_machine(), *unless_equal(machine, not_permitted), load_number()]
    if syscalls.machine() == "x86_64":
        steps += if_at_least(_X32_CALLS, not_permitted)
    steps += if_more(_LAST_KNOWN, not_there)
    for name in _REFUSED:
        steps += _on(name, not_permitted)
    for name in _NOT_THERE:
        steps += _on(name, not_there)
    return [*steps, *_judged_by_arguments(), *_sockets(own_network), allow()]


def _judged_by_arguments() -> Steps:
    not_permitted = refuse(errno.EPERM)
    steps = _on("clone", load_argument(0), *if_any_bit(namespaces.ALL, not_permitted))
    # Another process's limits: a way to starve the server where the user is the same.
    steps += _on("prlimit64", load_argument(0), *unless_equal(0, not_permitted))
    # By user or group it reaches processes outside of the box.
    steps += _on("setpriority", load_argument(0), *unless_equal(0, not_permitted))
    steps += _on("personality", load_argument(0), *unless_one_of(_PERSONALITIES, not_permitted))
    requests = [step for each in _TERMINAL_REQUESTS for step in if_equal(each, not_permitted)]
    steps += _on("ioctl", load_argument(1), *requests)
    for name, index in _MODE_ARGUMENTS.items():
        steps += _on(name, load_argument(index), *if_any_bit(_SET_ID_BITS, not_permitted))
    return steps


def _sockets(own_network: bool) -> Steps:
    not_permitted = refuse(errno.EPERM)
    family = [load_argument(0), *unless_equal(socket.AF_UNIX, not_permitted)]
    if own_network:
        return [*_on("socket", *family), *_on("socketpair", *family)]
    kind = [load_argument(1), mask(_SOCKET_KIND), *unless_one_of(_WITH_CONNECTION, not_permitted)]
    unaddressed = [step for upper in (False, True) for step in _is_null(4, upper)]
    return [
        *_on("socket", *family, *kind),
        *_on("socketpair", *family, *kind),
        *_on("connect", not_permitted),
        *_on("sendto", *unaddressed),
    ]


def _is_null(argument: int, upper: bool) -> Steps:
    return [load_argument(argument, upper), *unless_equal(0, refuse(errno.EPERM))]


def _on(name: str, *steps: Instruction) -> Steps:
    """Steps for the call of that name; none where this machine has no such call."""
    number = syscalls.number(name)
    return [] if number is None else for_call(number, *steps)
