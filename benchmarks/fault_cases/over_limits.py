"""Faults of appetite: memory, processor time, disk, processes, descriptors, launches."""

from __future__ import annotations

from functools import partial

from benchmarks.fault_cases.bench import Bench, aftermath, attempt
from benchmarks.fault_cases.case import NEEDS_BOX, Case, Outcome
from benchmarks.fault_cases.in_candidate import inject
from benchmarks.fault_cases.sources import HONEST, candidate
from egg_mcp.sandbox import machine_memory

_MEMORY = "crashed/out_of_host_memory"
_DISK = "crashed/disk_full"
_PROCESSES = "crashed/too_many_processes"
_SPARE_BYTES = 1 << 30
_TAKEN_BYTES = 2 << 30
_MEGABYTES = (
    "for number in range(1000):\n"
    "    with open(f'{folder}/{number}', 'wb') as file:\n"
    "        file.write(b'x' * (1 << 20))"
)
_SHARED_PAGES = (
    f"pages = mmap.mmap(-1, {_TAKEN_BYTES})\n"
    f"for at in range(0, {_TAKEN_BYTES}, 1 << 20):\n"
    "    pages[at:at + (1 << 20)] = b'x' * (1 << 20)\n"
    "time.sleep(1000)"
)
_MEMFD = (
    "for number in range(1000):\n"
    "    one = os.memfd_create(str(number))\n"
    "    for _ in range(3):\n"
    "        os.write(one, b'x' * (1 << 20))\n"
    "time.sleep(1000)"
)


def _case(name: str, expected: str, forward: str) -> Case:
    source = candidate(forward=forward)
    return Case(name, expected, partial(inject, source=source), needs=NEEDS_BOX)


async def _machine_runs_out(bench: Bench, forward: str) -> Outcome:
    """Memory that no limit counts: taken until the machine has less left than it must have."""
    available = machine_memory.available_bytes() or machine_memory.total_bytes()
    floor = available - _SPARE_BYTES
    async with bench.own(
        least_free_memory_bytes=floor,
        first_call_deadline_s=60,
        max_file_bytes=64 << 30,
        max_open_files=4_096,
    ) as subject:
        return await bench.observe(subject, candidate(forward=forward))


async def _machine_has_run_out(bench: Bench) -> Outcome:
    """Too little is left from the start: no code that is run here is to blame."""
    async with bench.own(least_free_memory_bytes=1 << 60) as subject:
        got, text = await attempt(subject, HONEST)
    return await aftermath(bench.shared, got, text)


async def _processor_time(bench: Bench) -> Outcome:
    async with bench.own(max_cpu_s=3, first_call_deadline_s=60) as subject:
        return await bench.observe(subject, candidate(forward="while True:\n    pass"))


CASES = (
    _case("heap-over-its-limit", _MEMORY, "bytearray(8 << 30)"),
    _case(
        "heap-in-small-pieces",
        _MEMORY,
        "kept = []\nwhile True:\n    kept.append(torch.empty(1 << 22))",
    ),
    _case("torch-over-the-memory-limit", _MEMORY, "torch.ones(1 << 31)"),
    Case(
        "shared-pages-until-the-machine-runs-out",
        _MEMORY,
        partial(_machine_runs_out, forward=_SHARED_PAGES),
    ),
    Case("memfd-until-the-machine-runs-out", _MEMORY, partial(_machine_runs_out, forward=_MEMFD)),
    Case(
        "machine-that-has-run-out-of-memory",
        "failed/reference_died",
        _machine_has_run_out,
        "the machine ran out of memory",
    ),
    Case("processor-time-over", "crashed/over_cpu_time", _processor_time, needs=NEEDS_BOX),
    _case("disk-full", _DISK, f"folder = '.'\n{_MEGABYTES}"),
    _case("shared-memory-full", _DISK, f"folder = '/dev/shm'\n{_MEGABYTES}"),
    _case(
        "one-file-too-long",
        _DISK,
        "with open('long', 'wb') as file:\n    for _ in range(600):\n        file.write(b'x' * (1 << 20))",
    ),
    _case(
        "too-many-processes",
        _PROCESSES,
        "kept = [subprocess.Popen(['sleep', '1000']) for _ in range(2000)]",
    ),
    _case(
        "fork-bomb",
        _PROCESSES,
        "while True:\n    if os.fork() == 0:\n        time.sleep(1000)",
    ),
    _case(
        "fork-bomb-that-goes-on",
        "timed_out/hang_on_host",
        "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    ),
    _case(
        "too-many-threads",
        _PROCESSES,
        "for _ in range(2000):\n"
        "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    ),
    _case(
        "too-many-descriptors",
        "crashed/too_many_files",
        "kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(5000)]",
    ),
    Case(
        "too-many-launches",
        "crashed/too_many_launches",
        partial(inject, source=candidate(forward="while True:\n    add(a, b)")),
    ),
)
