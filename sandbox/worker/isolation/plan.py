"""BoxPlan: what a box must hold. Frozen; written and read as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

LAYERS: tuple[str, ...] = ("namespaces", "uid", "landlock", "seccomp", "limits")
BOX_SCRATCH = "/tmp/egg"  # noqa: S108 - inside the box's own tmpfs

_GPU_NODE = re.compile(r"/dev/(nvidia[\w-]*(/[\w-]+)*|dxg|kfd|dri/[\w-]+)")
_NEVER_BOUND = ("/", "/dev", "/dev/shm", "/proc", "/tmp", "/sys")  # noqa: S108 - the box has its own
_LARGEST = 1 << 62
_LARGEST_UID = (1 << 32) - 2


class PlanError(ValueError):
    """The plan cannot mean what it says."""


@dataclass(frozen=True)
class Limits:
    """What one box may use. Each number is at least 1.

    Attributes:
        host_memory_bytes: private writable memory of each process (RLIMIT_DATA); past it, an
            allocation fails. Shared mappings and memfd are not counted.
        cpu_s: processor seconds of each process; past them SIGXCPU, a few later SIGKILL.
        processes: processes and threads in the box; past it, fork fails with EAGAIN.
        open_files: descriptors of each process; past it, EMFILE.
        file_bytes: size of each file; past it, EFBIG.
        disk_bytes: size of the box's own /tmp; past it, ENOSPC. Needs namespaces.
        shared_memory_bytes: size of the box's own /dev/shm; past it, ENOSPC. Needs namespaces.
    """

    host_memory_bytes: int
    cpu_s: int
    processes: int
    open_files: int
    file_bytes: int
    disk_bytes: int
    shared_memory_bytes: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if type(value) is not int or not 1 <= value <= _LARGEST:
                raise PlanError(f"limit {name} is {value!r}, not a whole number of at least 1")


@dataclass(frozen=True)
class BoxPlan:
    """All that is applied before untrusted code runs, or the box does not open.

    Attributes:
        layers: which of `LAYERS`; none of them means no confinement.
        limits: see `Limits`; used by the layer `limits`, the two sizes by `namespaces`.
        read_only: paths that may be read, beside what every program needs.
        hidden: paths that may not be read although a read-only path holds them. The longer path
            wins where one of the two lies in the other, the hidden one where they are the same.
        devices: GPU device nodes that may be opened, beside null, zero, full, random, urandom.
        scratch: folder that may be written and is started in. With namespaces it lies below the
            box's own /tmp and is made there; without them it exists.
        slot_uid: the user and group that the layer `uid` drops to when started as root; nobody
            else may use it. For an ordinary user the layer has nothing to do.
    """

    layers: frozenset[str]
    limits: Limits
    read_only: tuple[str, ...]
    hidden: tuple[str, ...]
    devices: tuple[str, ...]
    scratch: str
    slot_uid: int

    def __post_init__(self) -> None:
        unknown = sorted(self.layers.difference(LAYERS))
        if unknown:
            raise PlanError(f"no layer {unknown[0]!r}; there are {', '.join(LAYERS)}")
        for path in (*self.read_only, *self.hidden, *self.devices, self.scratch):
            _check_path(path)
        for path in (*self.read_only, *self.hidden):
            if path in _NEVER_BOUND:
                raise PlanError(f"{path!r} can be neither read-only nor hidden as a whole")
        for path in self.devices:
            if not _GPU_NODE.fullmatch(path):
                raise PlanError(f"{path!r} is not the node of a GPU")
        if "namespaces" in self.layers and not self.scratch.startswith("/tmp/"):  # noqa: S108
            raise PlanError(f"scratch {self.scratch!r} does not lie below the box's own /tmp")
        if type(self.slot_uid) is not int or not 1 <= self.slot_uid <= _LARGEST_UID:
            raise PlanError(f"slot_uid {self.slot_uid!r} is not the id of an ordinary user")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON that `from_json` reads."""
        return {
            "layers": [layer for layer in LAYERS if layer in self.layers],
            "limits": asdict(self.limits),
            "read_only": list(self.read_only),
            "hidden": list(self.hidden),
            "devices": list(self.devices),
            "scratch": self.scratch,
            "slot_uid": self.slot_uid,
        }

    @classmethod
    def from_json(cls, value: object) -> BoxPlan:
        """The plan that was written.

        Raises:
            PlanError: a key is missing or unknown, or a value is not what it must be.
        """
        table = _table(value, (field.name for field in fields(cls)), "plan")
        limits = _table(table["limits"], (field.name for field in fields(Limits)), "limits")
        scratch = table["scratch"]
        if not isinstance(scratch, str):
            raise PlanError(f"scratch is {scratch!r}, not a path")
        return cls(
            layers=frozenset(_strings(table, "layers")),
            limits=Limits(**limits),
            read_only=_strings(table, "read_only"),
            hidden=_strings(table, "hidden"),
            devices=_strings(table, "devices"),
            scratch=scratch,
            slot_uid=table["slot_uid"],
        )


def _table(value: object, names: Iterable[str], what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(f"{what} is {value!r}, not an object")
    table = dict(cast("Mapping[str, Any]", value))
    expected = set(names)
    if expected != set(table):
        odd = sorted(expected.symmetric_difference(table))
        raise PlanError(f"{what}: {odd[0]!r} is missing or unknown")
    return table


def _strings(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value: object = table[name]
    if not isinstance(value, list):
        raise PlanError(f"{name} is {value!r}, not a list")
    items = cast("list[object]", value)
    for item in items:
        if not isinstance(item, str):
            raise PlanError(f"{name} holds {item!r}, not a string")
    return tuple(cast("list[str]", items))


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path.startswith("/") or "\0" in path or "" in parts[2:] or {".", ".."} & set(parts):
        raise PlanError(f"{path!r} is not an absolute path in its shortest form")
