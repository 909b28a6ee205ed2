"""Scene: everything outside that one attack is aimed at, made anew for each."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from benchmarks.attacks import outsiders
from benchmarks.attacks.canaries import Canaries, Contents
from benchmarks.attacks.listeners import Listeners, free_port
from benchmarks.attacks.outsiders import Looks
from benchmarks.attacks.secret import make_secret
from benchmarks.attacks.source import World
from benchmarks.attacks.terminal import Terminal
from benchmarks.attacks.victim import Victim
from egg_mcp.sandbox.box_limits import box_limits
from egg_mcp.settings import Settings

WATCHED_BYTES = 3 << 30
"""What an attack on the machine's memory must not get, where that is watched."""
_PREFIX = "esc"
_OUR_SIGNAL = signal.SIGUSR1
_SWITCHES = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches"),
    *("/proc/sysrq-trigger", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/ns_last_pid"),
    *("/proc/sys/fs/binfmt_misc/register", "/proc/irq/default_smp_affinity"),
    *("/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled"),
    *("/sys/power/state", "/sys/kernel/mm/ksm/run", "/sys/kernel/profiling"),
)
_SETTINGS_OF_SYSTEM = (
    "/etc/passwd",
    "/etc/shadow",
    "/etc/ld.so.cache",
    "/etc/hosts",
    "/etc/crontab",
)


@dataclass(slots=True)
class Scene:
    """Open until `close`."""

    canaries: Canaries
    label: str
    listeners: Listeners
    victim: Victim
    terminal: Terminal
    before: dict[str, tuple[int, Looks]]
    contents: Contents
    signals: list[int] = field(default_factory=list[int])
    old_handler: object = signal.SIG_DFL

    @classmethod
    def open(cls, canaries: Canaries, named: dict[str, int]) -> Scene:
        """Set it up.

        Args:
            canaries: which stay for all attacks.
            named: other processes that may not be touched, by what they are.
        """
        label = f"{_PREFIX}{secrets.token_hex(6)}"
        victim = Victim.start(make_secret("environment"), make_secret("arguments"))
        everyone = {**named, "victim": victim.pid, "server": os.getpid()}
        scene = cls(
            canaries,
            label,
            Listeners.open(canaries.root, label),
            victim,
            Terminal.open(),
            {name: (pid, outsiders.looks(pid)) for name, pid in everyone.items()},
            canaries.contents(),
        )
        scene.old_handler = signal.signal(_OUR_SIGNAL, scene._take_signal)
        return scene

    def world(self, settings: Settings, note: str, zygote: int, referees: list[int]) -> World:
        """What the attack is told: all that a knowing insider could tell it, but no secret."""
        return {
            **self.listeners.addresses,
            "label": self.label,
            "run": self.label.removeprefix(_PREFIX),
            "terminal": self.terminal.path,
            "gpu": own_gpu(),
            "note": note,
            "bare": settings.sandbox == "off",
            "victim": self.victim.pid,
            "server": os.getpid(),
            "zygote": zygote,
            "referees": referees,
            "limits": {**box_limits(settings), "watched_bytes": WATCHED_BYTES},
            "most_output": settings.max_output_bytes,
            "free_port": free_port(),
            "home": str(self.canaries.home),
            "state": str(self.canaries.folder("state")),
            "workspace": str(self.canaries.folder("workspace")),
            "temp": str(self.canaries.temp),
            "files": [str(self.canaries.file(name)) for name in ("home", "state", "workspace")],
            "precious": precious_files(),
        }

    def traces(self) -> list[str]:
        """What shows that something outside was reached: all that holds for every attack."""
        found = [self.listeners.arrived(), self.victim.received(), self.terminal.typed()]
        found.append(self.canaries.restore(self.contents))
        if self.signals:
            found.append(f"the server got {signal.Signals(self.signals[0]).name}")
        self.victim.process.poll()
        for name, (pid, before) in self.before.items():
            changed = outsiders.changes(before, outsiders.looks(pid))
            found.append(f"{name}: {changed}" if changed else "")
            planted = Path(f"/proc/{pid}/cwd/{self.label}")
            if planted.exists():
                found.append(f"there is a new file in the folder of the {name}")
                planted.unlink()
        outsiders.set_going(pid for pid, _ in self.before.values())
        return [one for one in found if one]

    def close(self) -> None:
        """Take it down."""
        signal.signal(_OUR_SIGNAL, self.old_handler)  # pyright: ignore[reportArgumentType]
        self.listeners.close()
        self.victim.end()
        self.terminal.close()

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signals.append(number)


def precious_files() -> list[str]:
    """Files that a box may at most read: switches of the kernel, settings, this Python, ourselves."""
    worker = Path(sys.modules["egg_mcp.sandbox"].__path__[0]).resolve() / "worker"
    package = Path(sys.modules["anyio"].__path__[0])
    own = (worker / "candidate.py", worker / "main.py", package / "__init__.py")
    python = (Path(os.__file__), Path(sys.executable).resolve())
    groups = [
        str(path)
        for name in ("cgroup.procs", "release_agent", "notify_on_release", "cgroup.subtree_control")
        for depth in ("", "*/")
        for path in Path("/sys/fs/cgroup").glob(depth + name)
    ]
    every = (*_SWITCHES, *groups, *_SETTINGS_OF_SYSTEM, *map(str, (*own, *python)))
    return [path for path in every if Path(path).exists()]


def own_gpu() -> int:
    """The number of the GPU that workers are given; -1 where it has a name instead."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return int(first) if first.isdecimal() else -1
