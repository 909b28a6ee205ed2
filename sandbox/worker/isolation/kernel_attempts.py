"""Attempts on the kernel: calls that no kernel on a GPU needs. Harmless where they succeed."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

from egg_mcp.sandbox.worker.isolation import namespaces, syscalls
from egg_mcp.sandbox.worker.isolation.attempt import Attempt, Targets, reaching

_NOWHERE = b"/nonexistent/box-probe"
_AT_FDCWD = -100
_PEEK_USER = 3
_USER_MODE_ONLY = 1
_SESSION_KEYRING = -3
_NO_SUCH_FLAG = 0x8000
_NO_RANDOM_ADDRESSES = 0x004_0000
_TIOCSTI = 0x5412
_SET_USER_ID = 0o4755
_NULL_DEVICE = os.makedev(1, 3)


def _calling(name: str, *arguments: object) -> Attempt:
    return lambda _: reaching(lambda: syscalls.call(name, *arguments))


def _opening(name: str, *arguments: object) -> Attempt:
    def attempt(_: Targets) -> str:
        def make_call() -> str:
            os.close(syscalls.call(name, *arguments))
            return "a descriptor"

        return reaching(make_call)

    return attempt


def _making(name: str, remove: tuple[object, ...], *arguments: object) -> Attempt:
    """Make a System V object, and remove it again."""

    def attempt(_: Targets) -> str:
        made = syscalls.call(name, *arguments)
        control, *rest = remove
        syscalls.call(str(control), made, *rest)
        return "made one"

    return attempt


def _fork_into_namespace(_: Targets) -> str:
    flags = namespaces.NEW_USER | signal.SIGCHLD
    child = syscalls.call("clone", flags, None, None, None, None)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked into a user namespace"


def _enter_namespace(_: Targets) -> str:
    place = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        return reaching(lambda: syscalls.call("setns", place, 0))
    finally:
        os.close(place)


def _change_personality(_: Targets) -> str:
    syscalls.call("personality", _NO_RANDOM_ADDRESSES)
    syscalls.call("personality", 0)
    return "switched address randomization off"


def _type_into_terminal(_: Targets) -> str:
    def make_call() -> object:
        return fcntl.ioctl(1, _TIOCSTI, b"x")

    return reaching(make_call)


def _in_scratch(make: Callable[[Path], None]) -> Attempt:
    def attempt(_: Targets) -> str:
        path = Path(f"box-probe-{os.getpid()}")
        try:
            make(path)
            mode = path.stat().st_mode
        finally:
            path.unlink(missing_ok=True)
        if not (stat.S_ISCHR(mode) or mode & stat.S_ISUID):
            raise OSError(errno.EPERM, "no effect")
        return f"made one, {stat.filemode(mode)}"

    return attempt


def _set_user_id(path: Path) -> None:
    path.touch()
    path.chmod(_SET_USER_ID)


def _create_set_user_id(path: Path) -> None:
    os.umask(0)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _SET_USER_ID))


def _make_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, _NULL_DEVICE)


def _read_parents_limits(_: Targets) -> str:
    old = ctypes.create_string_buffer(16)
    return reaching(lambda: syscalls.call("prlimit64", os.getppid(), 4, None, old))


def _copy_own_memory(_: Targets) -> str:
    me = os.getpid()
    return reaching(lambda: syscalls.call("process_vm_readv", me, None, 0, None, 0, 0))


def _compare_processes(_: Targets) -> str:
    me = os.getpid()
    return reaching(lambda: syscalls.call("kcmp", me, me, 0, 0, 0))


KERNEL: dict[str, Attempt] = {
    "clone_into_namespace": _fork_into_namespace,
    "clone3": _calling("clone3", None, 0),
    "setns": _enter_namespace,
    "mount": _calling("mount", b"none", _NOWHERE, b"tmpfs", 0, None),
    "umount": _calling("umount2", _NOWHERE, 0),
    "pivot_root": _calling("pivot_root", _NOWHERE, _NOWHERE),
    "chroot": _calling("chroot", b"/"),
    "fsopen": _opening("fsopen", b"tmpfs", 0),
    "open_tree": _opening("open_tree", _AT_FDCWD, b"/", 0),
    "move_mount": _calling("move_mount", -1, b"", -1, b"", 0),
    "mount_setattr": _calling("mount_setattr", -1, b"", 0, None, 0),
    "ptrace": _calling("ptrace", _PEEK_USER, 0, 0, 0),
    "process_vm_readv": _copy_own_memory,
    "kcmp": _compare_processes,
    "pidfd_getfd": _calling("pidfd_getfd", -1, 0, 0),
    "prlimit": _read_parents_limits,
    "bpf": _calling("bpf", 0, None, 0),
    "perf_event_open": _calling("perf_event_open", None, 0, -1, -1, 0),
    "io_uring_setup": _opening("io_uring_setup", 1, bytes(120)),
    "userfaultfd": _opening("userfaultfd", _USER_MODE_ONLY),
    "keyctl": _calling("keyctl", 0, _SESSION_KEYRING, 0),
    "add_key": _calling("add_key", None, None, None, 0, 0),
    "request_key": _calling("request_key", None, None, None, 0),
    "memfd_secret": _opening("memfd_secret", 0),
    "fanotify_init": _opening("fanotify_init", 0, 0),
    "open_by_handle_at": _calling("open_by_handle_at", -1, None, 0),
    "name_to_handle_at": _calling("name_to_handle_at", _AT_FDCWD, b"/", None, None, 0),
    "openat2": _calling("openat2", -1, None, None, 0),
    "kexec_load": _calling("kexec_load", 0, 1 << 20, None, _NO_SUCH_FLAG),
    "init_module": _calling("init_module", None, 0, None),
    "finit_module": _calling("finit_module", -1, None, 0),
    "delete_module": _calling("delete_module", None, 0),
    "acct": _calling("acct", _NOWHERE),
    "swapon": _calling("swapon", _NOWHERE, 0),
    "reboot": _calling("reboot", 0, 0, 0, 0),
    "syslog": _calling("syslog", 10, None, 0),
    "settimeofday": _calling("settimeofday", None, None),
    "adjtimex": _calling("adjtimex", None),
    "sethostname": _calling("sethostname", None, -1),
    "personality": _change_personality,
    "type_into_terminal": _type_into_terminal,
    "set_user_id": _in_scratch(_set_user_id),
    "create_set_user_id": _in_scratch(_create_set_user_id),
    "make_device": _in_scratch(_make_device),
    "shared_segment": _making("shmget", ("shmctl", 0, None), 0, 4096, 0o600),
    "semaphores": _making("semget", ("semctl", 0, 0, None), 0, 1, 0o600),
    "message_queue": _making("msgget", ("msgctl", 0, None), 0, 0o600),
    "posix_queue": _calling("mq_open", None, 0, 0, None),
    # Last: where it succeeds, this process is another than before.
    "unshare_user": _calling("unshare", namespaces.NEW_USER),
}
