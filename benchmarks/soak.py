"""Many evaluations with faults among them: what is left of them, and does the server grow?"""

from __future__ import annotations

import gc
import os
import random
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from benchmarks.fault_cases.bench import Bench, attempt, warm
from benchmarks.fault_cases.killed import Killer, Part
from benchmarks.fault_cases.sources import HONEST, SUM, candidate
from benchmarks.fault_cases.subject import Subject
from benchmarks.result_file import device_slug, write_result
from egg_mcp.sandbox.process_tree import descendants
from egg_mcp.sandbox.worker_process import WorkerProcess

Say = Callable[[str], None]

_ROUNDS = 10
_GROWTH_BYTES = 16 << 20
"""What server and zygote may have grown by from the first tenth to the end."""

_FAULTS: dict[str, tuple[str, str]] = {
    "honest": (HONEST, "pass/-"),
    "wrong": (candidate(result="add(a, b) + 1"), "wrong/-"),
    "raises": (candidate(forward="raise KeyError('x')"), "crashed/raised"),
    "does-not-build": (candidate(at_import="1 / 0"), "build_failed/raised"),
    "ends": (candidate(forward="os._exit(3)"), "crashed/ended_itself"),
    "exits": (candidate(forward="sys.exit(1)"), "crashed/ended_itself"),
    "reads-address-0": (candidate(forward="ctypes.string_at(0)"), "crashed/ended_by_signal"),
    "leaves-a-child": (
        candidate(forward="subprocess.Popen(['sleep', '1000'], start_new_session=True)"),
        "pass/-",
    ),
    "leaves-files": (
        candidate(forward="open('/dev/shm/left', 'w').close()\nopen('left', 'w').close()"),
        "pass/-",
    ),
    "writes-into-its-channel": (
        candidate(forward="os.write(channel(), b'x' * 64)"),
        "crashed/broke_the_channel",
    ),
    "prints-much": (candidate(forward="os.write(1, b'x' * (1 << 22))"), "pass/-"),
    "hangs": (candidate(forward="while True:\n    pass"), "timed_out/hang_on_host"),
}
_KILLED: tuple[Part, ...] = ("guard", "keeper", "worker", "referee", "zygote")
_WEIGHTS = {"honest": 30, "hangs": 1}
_USUAL_WEIGHT = 5
_KILL_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a server holds at one moment."""

    descriptors: int
    processes: int
    folders: int
    shared_memory: int
    resident_bytes: int
    zygote_bytes: int
    gpu_free_bytes: int | None

    def __str__(self) -> str:
        gpu = (
            "" if self.gpu_free_bytes is None else f", GPU free {self.gpu_free_bytes / 1e6:.0f} MB"
        )
        return (
            f"descriptors {self.descriptors}, processes {self.processes}, temporary entries "
            f"{self.folders}, /dev/shm and System V entries {self.shared_memory}, server "
            f"{self.resident_bytes / 1e6:.1f} MB, zygote {self.zygote_bytes / 1e6:.1f} MB{gpu}"
        )


def run(out: str, evaluations: int = 500, seed: int | None = None) -> int:
    """Evaluate so many candidates; 1 when something is left, or is called what it is not.

    Args:
        out: folder for the result.
        evaluations: how many.
        seed: of the mix; another one each time when None.
    """
    seed = secrets.randbits(32) if seed is None else seed
    lines = [f"{evaluations} evaluations, seed {seed}"]

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    print(lines[0], flush=True)
    faults = anyio.run(soak, evaluations, seed, say)
    say("; ".join(faults) if faults else "nothing leaked, nothing was called what it is not")
    write_result(out, "soak", device_slug(), "\n".join(lines) + "\n")
    return 1 if faults else 0


async def soak(evaluations: int, seed: int, say: Say) -> list[str]:
    """What is wrong afterwards; empty when nothing is.

    Args:
        evaluations: how many.
        seed: of the mix.
        say: takes lines as they come.
    """
    with tempfile.TemporaryDirectory() as folder:
        kind = "emulated" if device_slug() == "cpu" else "cuda"
        gc.collect()
        before = _descriptors()
        async with Bench.open(Path(folder), kind) as bench:
            mix = random.Random(seed)  # noqa: S311 - a mix that can be drawn again
            faults = await _soak(bench.shared, Path(folder), evaluations, mix, say)
        gc.collect()
        return faults + _left(Path(folder), before, say)


def _left(folder: Path, descriptors_before: int, say: Say) -> list[str]:
    """What there still is after the server's end, besides its locks."""
    processes = len(descendants(os.getpid())) - 1
    names = [path.name for path in folder.iterdir() if not path.name.startswith("egg-mcp-locks-")]
    tickets = len(list(folder.glob("egg-mcp-locks-*/*.queue/*")))
    descriptors = _descriptors() - descriptors_before
    say(
        f"after its end: processes {processes}, temporary entries {len(names)}, tickets {tickets}, "
        f"descriptors {descriptors} more than before"
    )
    left = (processes, len(names), tickets, max(0, descriptors))
    return [f"left after the end: {left}, {names}"] if any(left) else []


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _soak(
    subject: Subject, folder: Path, evaluations: int, chance: random.Random, say: Say
) -> list[str]:
    faults: list[str] = []
    seen: Counter[str] = Counter()
    held: list[Holdings] = []
    for number in range(evaluations):
        name = _drawn(chance)
        expected, got = await _one(subject, name)
        seen[f"{name}: {got}"] += 1
        if got != expected:
            faults.append(f"number {number}, {name}: {got}, expected {expected}")
        if (number + 1) % max(1, evaluations // _ROUNDS) == 0:
            await warm(subject)
            held.append(await _holdings(subject, folder))
            say(f"after {number + 1:>4}: {held[-1]}")
    for line, count in sorted(seen.items()):
        say(f"  {count:>4} x {line}")
    say(f"called what they are not: {len(faults)} of {evaluations}")
    return faults + _leaks(held)


def _drawn(chance: random.Random) -> str:
    names = [*_FAULTS, *(f"{part}-killed" for part in _KILLED)]
    weights = [
        _KILL_WEIGHT if name.endswith("-killed") else _WEIGHTS.get(name, _USUAL_WEIGHT)
        for name in names
    ]
    return chance.choices(names, weights)[0]


async def _one(subject: Subject, name: str) -> tuple[str, str]:
    """What was expected, and what came."""
    if name in _FAULTS:
        source, expected = _FAULTS[name]
        got, _ = await attempt(subject, source)
        return expected, got.replace("emulated_pass", "pass")
    part: Part = next(one for one in _KILLED if name.startswith(one))
    await warm(subject)
    killer = Killer(subject, part)
    got, _ = await attempt(subject, HONEST, killer, SUM)
    return "pass/-", got.replace("emulated_pass", "pass")


async def _holdings(subject: Subject, folder: Path) -> Holdings:
    gc.collect()
    # A referee waits in every one of these moments, a candidate in none.
    return await anyio.to_thread.run_sync(
        _counted, subject.zygote, folder, await _gpu_free(subject)
    )


def _counted(zygote: int, folder: Path, gpu_free_bytes: int | None) -> Holdings:
    names = [path.name for path in folder.iterdir()]
    queues = list(folder.glob("egg-mcp-locks-*/*.queue/*"))
    shared = [*Path("/dev/shm").iterdir(), *_system_v()]  # noqa: S108 - to count
    return Holdings(
        descriptors=_descriptors(),
        processes=len(descendants(os.getpid())),
        folders=len(names) + len(queues),
        shared_memory=len(shared),
        resident_bytes=_resident_bytes(os.getpid()),
        zygote_bytes=_resident_bytes(zygote),
        gpu_free_bytes=gpu_free_bytes,
    )


def _system_v() -> list[str]:
    tables = (Path("/proc/sysvipc") / name for name in ("shm", "sem", "msg"))
    return [
        line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]
    ]


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


async def _gpu_free(subject: Subject) -> int | None:
    launcher = subject.starter.launchers[-1]
    worker = await WorkerProcess.start("canary", launcher, subject.settings)
    try:
        reply = await worker.call("sing", phase="the canary", deadline_s=30)
    finally:
        await worker.aclose()
    return reply["free_bytes"]


def _leaks(held: list[Holdings]) -> list[str]:
    first, last = held[0], held[-1]
    found = [
        f"{name} grew from {getattr(first, name)} to {getattr(last, name)}"
        for name in ("descriptors", "processes", "folders", "shared_memory")
        if getattr(last, name) > getattr(first, name)
    ]
    for name in ("resident_bytes", "zygote_bytes"):
        grown = getattr(last, name) - getattr(first, name)
        if grown > _GROWTH_BYTES:
            found.append(f"{name} grew by {grown}")
    if first.gpu_free_bytes and last.gpu_free_bytes:
        lost = first.gpu_free_bytes - last.gpu_free_bytes
        if lost > _GROWTH_BYTES:
            found.append(f"{lost} bytes of GPU memory are gone")
    return found
