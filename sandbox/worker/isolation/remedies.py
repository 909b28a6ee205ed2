"""Remedies: the exact commands that would make a missing layer possible."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# name: (the value that forbids, the one that allows)
_SWITCHES = {
    "kernel.apparmor_restrict_unprivileged_userns": (1, 0),
    "kernel.unprivileged_userns_clone": (0, 1),
    "user.max_user_namespaces": (0, 15_000),
}
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_FIX = (
    "start the container with: docker run --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ..."
)
_FIXES = {
    "landlock": (
        "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y and landlock in the boot "
        "parameter lsm= (see: cat /sys/kernel/security/lsm)"
    ),
    "uid": (
        "install the worker's Python and its packages where every user may read them "
        "(for example below /opt), and grant the container CAP_SETUID, CAP_SETGID and CAP_CHOWN"
    ),
    "seccomp": "use Linux on x86_64 or aarch64 with CONFIG_SECCOMP_FILTER=y",
    "limits": "raise the hard limits of the service (see: ulimit -Ha) and mount /proc writable",
}

NOT_DEFENDED = (
    "the ioctl surface of the GPU driver: a fault in it is a way out of every box",
    "side channels over the GPU, the caches and the timing of the machine",
    "faults of the Linux kernel in the system calls that CUDA needs",
    "memory in shared mappings, memfd and on the GPU: only a watch from outside bounds it",
    "which process the kernel ends first without memory: oom_score_adj may be lowered again",
    "unix sockets with a path below a read-only path: they can be connected to",
)


def fixes_for(failed: Mapping[str, str]) -> list[str]:
    """What to run or change, one step an item, for the layers that could not be had."""
    steps: list[str] = []
    for layer in failed:
        if layer == "namespaces":
            steps += _for_namespaces()
        elif layer in _FIXES:
            steps.append(_FIXES[layer])
    return steps


def _for_namespaces() -> list[str]:
    steps: list[str] = []
    for name, (wrong, right) in _SWITCHES.items():
        if _switch(name) == wrong and os.geteuid() != 0:
            steps.append(f"sudo sysctl -w {name}={right}")
    if _is_container():
        steps.append(_CONTAINER_FIX)
    if not steps:
        steps.append(
            "allow unprivileged user namespaces (CONFIG_USER_NS=y, Linux 5.12 or newer, no "
            "security module that refuses unshare, mount or pivot_root), or run as root"
        )
    return steps


def _switch(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", *name.split(".")).read_bytes())
    except (OSError, ValueError):
        return None


def _is_container() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(
        Path(mark).exists() for mark in _CONTAINER_MARKS
    )
