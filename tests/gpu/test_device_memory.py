"""Device memory that two processes map: what is shared, what is not, what is given back."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from egg_mcp.sandbox.worker import device_memory, tensors
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.device_memory import POISON
from egg_mcp.sandbox.worker.referee import Referee
from tests.sandbox.worker.test_worker import REFERENCE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

BORROWER = Path(__file__).parent / "borrower.py"
SIZE_BYTES = 4 << 20


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("end", "code"), [("plain", 0), ("fault", 1), ("kill", -9)])
def test_another_process_writes_and_its_end_does_no_harm(end: str, code: int) -> None:
    memory, descriptor = device_memory.make(SIZE_BYTES)
    mine = torch.empty(memory.size_bytes, dtype=torch.uint8, device="cuda")
    memory.read(0, mine)
    assert int(mine.min()) == POISON

    done = subprocess.run(
        [sys.executable, str(BORROWER), str(descriptor), str(memory.size_bytes), end],
        pass_fds=[descriptor],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    os.close(descriptor)

    assert done.returncode == code, done.stderr
    # More than there is cannot be mapped.
    assert done.stdout.split() == ["no_segment", str(POISON)]
    memory.read(0, mine)
    assert (int(mine.min()), int(mine.max())) == (7, 7)
    memory.wipe()
    memory.close()
    assert float(torch.ones(10, device="cuda").sum()) == 10


def test_five_hundred_evaluations_leave_nothing_behind() -> None:
    def once() -> None:
        memory, descriptor = device_memory.make(64 << 20)
        borrowed = device_memory.adopt(descriptor, memory.size_bytes)
        os.close(descriptor)
        borrowed.close()
        memory.close()

    once()
    torch.cuda.synchronize()
    free, held = torch.cuda.mem_get_info()[0], descriptors()
    for _ in range(500):
        once()
    torch.cuda.synchronize()
    assert descriptors() == held
    # Others may be on the device; what one evaluation takes would be 32 GB by now.
    assert free - torch.cuda.mem_get_info()[0] < 256 << 20


class Bench:
    """A referee in this process, with device mailboxes."""

    def __init__(self) -> None:
        self.referee = Referee(Device(emulated=False))
        self.ask("load", source=REFERENCE, name="add.py", weight_seed=1)
        boxes = self.referee.files
        boxes.take("open_files", {}, [os.memfd_create(name) for name in ("inbox", "outbox")])
        made = self.ask("make_memory")
        assert made["sizes"], made
        for descriptor in made["descriptors"]:
            os.close(descriptor)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return self.referee.operations[op](fields)

    def close(self) -> None:
        self.ask("drop_memory")


def test_the_answer_to_one_trial_is_none_to_the_next() -> None:
    bench = Bench()
    made = bench.ask("prepare", trial=1, kind="given", seed=5, offset=0)
    inbox, outbox = bench.referee.files.inbox, bench.referee.files.outbox
    inputs = tensors.decode(made["inputs"], inbox, torch.device("cuda", 0))
    assert made["inputs"]["v"][0]["in"] == "memory"
    state = bench.ask("export_init")["state"]
    bias = tensors.decode(state, inbox, torch.device("cuda", 0))["bias"]
    outbox.rewind()
    tree, _ = tensors.encode(inputs[0] + inputs[1] + bias, outbox, 0)

    right = bench.ask("judge", trial=1, outputs=tree)
    stale = bench.ask("judge", trial=1, outputs=tree)

    assert right["outputs"][0]["elementwise_ok"]
    assert not stale["outputs"][0]["elementwise_ok"]
    assert stale["outputs"][0]["mismatch"]["got"] == "nan"
    bench.close()


def test_a_tree_that_cannot_be_read_leaves_no_answer_either() -> None:
    bench = Bench()
    bench.ask("prepare", trial=1, kind="given", seed=5, offset=0)
    outbox = bench.referee.files.outbox
    outbox.rewind()
    tree, _ = tensors.encode(torch.ones(5, 300, device="cuda"), outbox, 0)
    with pytest.raises(Exception, match="not a value"):
        bench.ask("judge", trial=1, outputs={"t": "list", "v": [tree, {"t": "what"}]})
    left = tensors.decode(tree, outbox, torch.device("cuda", 0))
    assert bool(left.isnan().all())
    bench.close()


def test_what_inputs_may_lie_beside_is_poison() -> None:
    """No byte of the mailboxes comes from the referee's own memory."""
    secret = torch.full((1 << 28,), 41, dtype=torch.uint8, device="cuda")
    del secret
    torch.cuda.empty_cache()
    memory, descriptor = device_memory.make(1 << 28)
    os.close(descriptor)
    seen = torch.empty(memory.size_bytes, dtype=torch.uint8, device="cuda")
    memory.read(0, seen)
    assert int(seen.min()) == POISON
    memory.close()
