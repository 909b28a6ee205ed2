"""Attempts on the host: its files, its network, its other processes, its GPUs."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from egg_mcp.sandbox.worker.isolation import syscalls
from egg_mcp.sandbox.worker.isolation.attempt import Attempt, Targets

_PTRACE_SEIZE = 0x4206
_WAIT_S = 1.0
LEFT_FILE = "leave_file_in_temp"
_AF_NETLINK, _AF_PACKET, _AF_ALG, _AF_VSOCK = 16, 17, 38, 40


def _refused(why: int, text: str) -> OSError:
    return OSError(why, text)


# --- files


def _create_in(folder: str) -> str:
    path = Path(folder, f".box-probe-{os.getpid()}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()
    return f"made a file in {folder}"


def _leave_file(targets: Targets) -> str:
    Path(targets.left_path).touch()
    return f"made {targets.left_path}"


def _create_in_any(targets: Targets) -> str:
    for folder in targets.folders:
        try:
            return _create_in(folder)
        except OSError:
            continue
    raise _refused(errno.EACCES, "none of the folders")


def _open_to_write(path: str) -> Attempt:
    def attempt(_: Targets) -> str:
        os.close(os.open(path, os.O_WRONLY))
        return f"opened {path} for writing"

    return attempt


def _overwrite_secret(targets: Targets) -> str:
    os.close(os.open(targets.secret_path, os.O_WRONLY))
    return "opened the prober's file for writing"


def _read_secret(targets: Targets) -> str:
    return f"read {len(Path(targets.secret_path).read_bytes())} bytes of the prober's file"


def _list_secret_folder(targets: Targets) -> str:
    return f"listed {len(os.listdir(Path(targets.secret_path).parent))} names"  # noqa: PTH208


def _read_file(path: str) -> Attempt:
    def attempt(_: Targets) -> str:
        with Path(path).open("rb") as file:
            return f"read {len(file.read(16))} bytes of {path}"

    return attempt


def _look_into_hidden(targets: Targets) -> str:
    for path in targets.hidden:
        inside = [PurePosixPath(each) for each in targets.shown if each.startswith(f"{path}/")]
        on_the_way = {each.relative_to(path).parts[0] for each in inside}
        try:
            found = os.listdir(path) if Path(path).is_dir() else Path(path).read_bytes()  # noqa: PTH208
        except OSError:
            continue
        seen = found if isinstance(found, bytes) else set(found) - on_the_way
        if seen:
            return f"saw what is in {path}"
    raise _refused(errno.ENOENT, "nothing to see")


# --- network


def _reach_tcp(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(_WAIT_S)
        sock.connect(("127.0.0.1", targets.tcp_port))
    return "connected"


def _reach_udp(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", targets.udp_port))
    return "sent"


def _reach_unix(address: Callable[[Targets], str]) -> Attempt:
    def attempt(targets: Targets) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_WAIT_S)
            sock.connect(address(targets))
        return "connected"

    return attempt


def _make_socket(family: int, kind: int) -> Attempt:
    def attempt(_: Targets) -> str:
        socket.socket(family, kind).close()
        return f"made a socket of family {family}"

    return attempt


# --- processes


def start_time(pid: int) -> str:
    """When the process started, in clock ticks since boot.

    Raises:
        OSError: no such process in sight.
    """
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[19].decode()


def _require_prober(targets: Targets) -> None:
    if start_time(targets.pid) != targets.started:
        raise _refused(errno.ESRCH, "another process has its number here")


def _see(targets: Targets) -> str:
    _require_prober(targets)
    return "saw the prober in /proc"


def _list(targets: Targets) -> str:
    """What is older than the prober is none of the box's own."""
    seen = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names
    older = [pid for pid in seen if int(start_time(pid)) < int(targets.started)]
    if not older:
        raise _refused(errno.ESRCH, "only the box's own")
    return f"listed {len(seen)} processes, {len(older)} of them older than the prober"


def _signal(targets: Targets) -> str:
    os.kill(targets.pid, signal.SIGURG)
    return "sent a signal to the prober's number"


def _read_of_prober(name: str) -> Attempt:
    def attempt(targets: Targets) -> str:
        _require_prober(targets)
        with Path(f"/proc/{targets.pid}/{name}").open("rb"):
            return f"opened the prober's {name}"

    return attempt


def _trace(targets: Targets) -> str:
    syscalls.call("ptrace", _PTRACE_SEIZE, targets.pid, 0, 0)
    return "traced the prober"


def _copy_memory(targets: Targets) -> str:
    byte = ctypes.create_string_buffer(1)
    # The prober is this process's ancestor by forks alone: the same address is mapped there.
    span = struct.pack("PN", ctypes.addressof(byte), 1)
    copied = syscalls.call("process_vm_readv", targets.pid, span, 1, span, 1, 0)
    return f"copied {copied} byte of the prober's memory"


def _change_limits(targets: Targets) -> str:
    limits = resource.prlimit(targets.pid, resource.RLIMIT_CORE)
    resource.prlimit(targets.pid, resource.RLIMIT_CORE, limits)
    return "set the prober's limits"


# --- GPUs


def _open_other_gpus(targets: Targets) -> str:
    for path in targets.gpu_nodes:
        if path in targets.granted_nodes:
            continue
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError:
            continue
        return f"opened {path}"
    raise _refused(errno.ENOENT, "none that was not granted")


def _open_kernel_device(path: str) -> Attempt:
    def attempt(_: Targets) -> str:
        os.close(os.open(path, os.O_RDONLY))
        return f"opened {path}"

    return attempt


FILE_WRITING: dict[str, Attempt] = {
    "make_file_in_host_folder": _create_in_any,
    LEFT_FILE: _leave_file,
    "make_file_in_usr": lambda _: _create_in("/usr"),
    "make_file_in_etc": lambda _: _create_in("/etc"),
    "make_file_in_root": lambda _: _create_in("/"),
    "make_file_in_dev": lambda _: _create_in("/dev"),
    "overwrite_secret": _overwrite_secret,
    "set_core_pattern": _open_to_write("/proc/sys/kernel/core_pattern"),
    "set_sysfs": _open_to_write("/sys/kernel/mm/transparent_hugepage/enabled"),
    "trigger_sysrq": _open_to_write("/proc/sysrq-trigger"),
}
FILE_READING: dict[str, Attempt] = {
    "read_secret": _read_secret,
    "list_secret_folder": _list_secret_folder,
    "read_shadow": _read_file("/etc/shadow"),
    "read_machine_id": _read_file("/etc/machine-id"),
    "look_into_hidden": _look_into_hidden,
}
NETWORK: dict[str, Attempt] = {
    "connect_tcp": _reach_tcp,
    "send_udp": _reach_udp,
    "connect_abstract_unix": _reach_unix(lambda targets: "\0" + targets.abstract_name),
    "connect_unix_path": _reach_unix(lambda targets: targets.socket_path),
    "make_tcp6_socket": _make_socket(socket.AF_INET6, socket.SOCK_STREAM),
    "make_netlink_socket": _make_socket(_AF_NETLINK, socket.SOCK_RAW),
    "make_packet_socket": _make_socket(_AF_PACKET, socket.SOCK_RAW),
    "make_vsock_socket": _make_socket(_AF_VSOCK, socket.SOCK_STREAM),
    "make_crypto_socket": _make_socket(_AF_ALG, socket.SOCK_SEQPACKET),
}
PROCESSES: dict[str, Attempt] = {
    "see_process": _see,
    "list_processes": _list,
    "signal_process": _signal,
    "read_environ": _read_of_prober("environ"),
    "read_command_line": _read_of_prober("cmdline"),
    "open_memory": _read_of_prober("mem"),
    "trace_process": _trace,
    "copy_memory": _copy_memory,
    "set_limits_of_process": _change_limits,
}
GPUS: dict[str, Attempt] = {
    "open_other_gpu": _open_other_gpus,
    "open_dev_mem": _open_kernel_device("/dev/mem"),
    "open_dev_kmsg": _open_kernel_device("/dev/kmsg"),
    "open_dev_kvm": _open_kernel_device("/dev/kvm"),
    "open_dev_fuse": _open_kernel_device("/dev/fuse"),
}
