"""What a tool tells of each class of fault: its word, and the next step (Linux)."""

from __future__ import annotations

import os
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Literal

import anyio.to_thread

from benchmarks.fault_cases import on_gpu
from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import GPU_ONLY, NEEDS_BOX, Case, Need, Outcome
from benchmarks.fault_cases.client import StdioClient
from benchmarks.fault_cases.in_server import honest, seen
from benchmarks.fault_cases.sources import SUM, candidate, reference
from benchmarks.fault_cases.subject import children

_MOST_LOOKS = 200


async def _of_candidate(bench: Bench, name: str, source: str) -> Outcome:
    """A candidate's own fault."""
    return await anyio.to_thread.run_sync(partial(_judged, bench, name, source))


def _judged(bench: Bench, name: str, source: str) -> Outcome:
    server = bench.server()
    session_id = server.finish("design_algorithm", reference_code=SUM.source)["session_id"]
    job = server.finish("design_algorithm", session_id=session_id, kernel_code=source)
    return seen(job, honest(server, name))


async def _no_python(bench: Bench) -> Outcome:
    """The server's worker Python is not there."""
    return await anyio.to_thread.run_sync(partial(_without_python, bench))


def _without_python(bench: Bench) -> Outcome:
    python = {"EGG_WORKER_PYTHON": str(bench.folder / "no" / "python")}
    with (
        tempfile.TemporaryDirectory(dir=bench.folder) as state,
        StdioClient.open(Path(state), bench.folder, **bench.environment(), **python) as server,
    ):
        job = server.finish("design_algorithm", reference_code=SUM.source)
    return seen(job, honest(bench.server(), "no python"))


async def _killed(bench: Bench, part: Literal["zygote", "reference"]) -> Outcome:
    """That process of the server's is killed while a reference is screened."""
    return await anyio.to_thread.run_sync(partial(_kill, bench, part))


def _kill(bench: Bench, part: str) -> Outcome:
    server = bench.server()
    honest(server, f"nothing, before the {part} is killed")
    zygote = _zygote_of(server.process.pid)
    idle = set(children(zygote))
    slow = reference(forward="time.sleep(1000)", title=f"Sum, {part} killed.").source
    job = server.call("design_algorithm", reference_code=slow, wait_s=0)
    for _ in range(_MOST_LOOKS):
        if new := set(children(zygote)) - idle:
            os.kill(zygote if part == "zygote" else new.pop(), signal.SIGKILL)
            break
        server.call("get_job", job_id=job["job_id"], wait_s=0.1)
    ended = server.finish("get_job", job_id=job["job_id"])
    return seen(ended, honest(server, f"the killed {part}"))


def _zygote_of(server: int) -> int:
    role = b"--role\0zygote\0"
    return next(
        one for one in children(server) if role in Path(f"/proc/{one}/cmdline").read_bytes()
    )


def _case(name: str, expected: str, source: str, needs: Need = "") -> Case:
    name = f"told-{name}"
    return Case(name, expected, partial(_of_candidate, name=name, source=source), needs=needs)


def _on_gpu(name: str, expected: str, forward: str) -> Case:
    source = candidate(at_import=on_gpu.KERNELS, forward=forward)
    return _case(name, expected, source, GPU_ONLY)


CASES = (
    _case("raised", "crashed/raised", candidate(forward="raise KeyError('x')")),
    _case("hang", "timed_out/hang_on_host", candidate(at_import="time.sleep(1000)")),
    _case(
        "stopped",
        "timed_out/stopped_itself",
        candidate(forward="os.kill(os.getpid(), signal.SIGSTOP)"),
    ),
    _case("signal", "crashed/ended_by_signal", candidate(forward="ctypes.string_at(0)")),
    _case("end", "crashed/ended_itself", candidate(forward="os._exit(0)")),
    _case("kill", "crashed/killed", candidate(forward="os.kill(os.getpid(), signal.SIGKILL)")),
    _case(
        "memory", "crashed/out_of_host_memory", candidate(forward="bytearray(8 << 30)"), NEEDS_BOX
    ),
    _case(
        "disk",
        "crashed/disk_full",
        candidate(forward="open('long', 'wb').write(b'x' * (600 << 20))"),
        NEEDS_BOX,
    ),
    _case(
        "processes",
        "crashed/too_many_processes",
        candidate(forward="kept = [subprocess.Popen(['sleep', '1000']) for _ in range(2000)]"),
        NEEDS_BOX,
    ),
    _case(
        "descriptors",
        "crashed/too_many_files",
        candidate(forward="kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(5000)]"),
        NEEDS_BOX,
    ),
    _case(
        "launches",
        "crashed/too_many_launches",
        candidate(forward="while True:\n    add(a, b)"),
    ),
    _case(
        "channel",
        "crashed/broke_the_channel",
        candidate(forward="os.write(channel(), b'x' * 4096)"),
    ),
    _on_gpu(
        "device-hang",
        "timed_out/hang_on_device",
        "spin[(1,)](torch.zeros(1, device='cuda'))",
    ),
    _on_gpu("device-fault", "crashed/device_fault", "store_far[(1,)](a, 1 << 40)"),
    _on_gpu("device-memory", "crashed/out_of_device_memory", "torch.empty(1 << 42, device='cuda')"),
    Case("told-no-python", "failed/worker_unavailable", _no_python),
    Case("told-zygote-killed", "failed/zygote_died", partial(_killed, part="zygote")),
    Case("told-reference-killed", "failed/reference_died", partial(_killed, part="reference")),
)
