"""Device memory beside files, with plain memory in the device's place."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from egg_mcp.sandbox.worker import tensors
from egg_mcp.sandbox.worker.device_memory import POISON, DeviceMemory
from egg_mcp.sandbox.worker.mailbox import Mailbox, Mailboxes
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.segment import Driver
from egg_mcp.sandbox.worker.shared_file import SharedFile
from egg_mcp.sandbox.worker.tensors import Unwritten

CPU = torch.device("cpu")
MEMORY_BYTES = 1 << 12


@pytest.fixture
def shared() -> Iterator[Mailbox]:
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 14)
        line = torch.zeros(MEMORY_BYTES, dtype=torch.uint8)
        yield Mailbox(SharedFile(file.fileno()), DeviceMemory(line, lambda: None))


def memory_of(mailbox: Mailbox) -> DeviceMemory:
    assert mailbox.memory is not None
    return mailbox.memory


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4).t(),
        torch.randn(8, 8)[:, ::2],
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.tensor([float("nan"), -0.0], dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor(7),
        torch.empty(0, 3),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}",
)
def test_tensor_comes_back_through_memory_as_it_was(tensor: torch.Tensor, shared: Mailbox) -> None:
    tree, end = tensors.encode(tensor, shared, 0)
    back = tensors.decode(tree, shared, CPU)
    assert tree.get("in") == ("memory" if tensor.numel() else None)
    assert end == 0
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.tolist().__repr__() == tensor.tolist().__repr__()


def test_values_follow_each_other_until_memory_is_rewound(shared: Mailbox) -> None:
    trees = [tensors.encode(torch.full((10,), float(n)), shared, 0)[0] for n in range(3)]
    assert [tree["offset"] for tree in trees] == [0, 256, 512]
    assert [float(tensors.decode(tree, shared, CPU)[9]) for tree in trees] == [0, 1, 2]
    shared.rewind()
    assert tensors.encode(torch.zeros(3), shared, 0)[0]["offset"] == 0


def test_what_memory_has_no_room_for_goes_to_the_file(shared: Mailbox) -> None:
    value = [torch.ones(600), torch.ones(600) * 2, torch.ones(600) * 3, torch.ones(1 << 12)]
    tree, end = tensors.encode(value, shared, 0)
    assert [node.get("in") for node in tree["v"]] == ["memory", None, None, None]
    assert [node["offset"] for node in tree["v"]] == [0, 0, 2560, None]
    assert end == 2560 + 2400
    back = tensors.decode(tree, shared, CPU)
    assert [float(one[-1]) for one in back[:3]] == [1, 2, 3]
    assert back[3] == Unwritten(torch.float32, (1 << 12,))


def test_what_lies_elsewhere_goes_to_the_file(shared: Mailbox) -> None:
    assert shared.allot(torch.device("meta"), 8) is None
    assert shared.allot(CPU, 8) == 0


def node(**changes: Any) -> dict[str, Any]:
    sizes = {"shape": [4], "stride": [1], "nbytes": 16, "offset": 0, "in": "memory"}
    return {"t": "tensor", "dtype": "float32", **sizes, **changes}


@pytest.mark.parametrize(
    "tree",
    [
        node(offset=MEMORY_BYTES - 15),
        node(offset=1 << 40),
        node(offset=-16),
        node(**{"in": "elsewhere"}),
        node(**{"in": ["memory"]}),
        node(**{"in": {}}),
        node(shape=[1 << 20], nbytes=1 << 22),
        {"t": "list", "v": [node(shape=[1000], nbytes=4000)] * 2},
    ],
    ids=["end", "far", "before", "name", "list", "object", "long", "together"],
)
def test_lies_about_memory_are_refused(tree: dict[str, Any], shared: Mailbox) -> None:
    with pytest.raises(OpError) as caught:
        tensors.decode(tree, shared, CPU)
    assert caught.value.kind == "bad_tree"


def test_memory_that_is_not_there_cannot_be_named(shared: Mailbox) -> None:
    with pytest.raises(OpError, match="no place memory"):
        tensors.decode(node(), Mailbox(shared.file), CPU)


def test_what_was_decoded_is_a_copy_that_later_writes_do_not_reach(shared: Mailbox) -> None:
    tree, _ = tensors.encode(torch.ones(4), shared, 0)
    back = tensors.decode(tree, shared, CPU)
    memory_of(shared).wipe()
    assert back.tolist() == [1.0] * 4
    assert bool(tensors.decode(tree, shared, CPU).isnan().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_wiped_memory_is_no_number(dtype: torch.dtype, shared: Mailbox) -> None:
    memory_of(shared).wipe()
    name = str(dtype).removeprefix("torch.")
    tree = node(dtype=name, nbytes=4 * dtype.itemsize)
    assert bool(tensors.decode(tree, shared, CPU).isnan().all())
    assert tensors.decode(node(dtype="uint8", nbytes=4), shared, CPU).tolist() == [POISON] * 4
    assert tensors.decode(node(dtype="int32"), shared, CPU).tolist() == [-1] * 4


def test_memory_is_released_once_and_not_used_afterwards() -> None:
    released: list[bool] = []
    memory = DeviceMemory(torch.zeros(8, dtype=torch.uint8), lambda: released.append(True))
    with pytest.raises(OpError, match="9 bytes at 0 in 8"):
        memory.write(0, torch.zeros(9, dtype=torch.uint8))
    memory.close()
    memory.close()
    assert released == [True]
    with pytest.raises(OpError, match="closed"):
        memory.wipe()


@pytest.mark.parametrize(
    ("library", "said"),
    [("libnothing-of-that-name.so", "libnothing"), ("libc.so.6", "has no cuMem")],
)
def test_without_a_driver_there_is_no_segment(library: str, said: str) -> None:
    with pytest.raises(OpError, match=said) as caught:
        Driver(library).create(1)
    assert caught.value.kind == "no_segment"


def null() -> int:
    return os.open(os.devnull, os.O_RDWR)


def held() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("op", ["open_files", "open_memory"])
def test_a_request_with_other_than_two_descriptors_is_refused_and_they_are_closed(
    op: str, count: int
) -> None:
    before = held()
    boxes = Mailboxes(grows_inbox=False)
    with pytest.raises(OpError, match=f"takes 2 descriptors, got {count}"):
        boxes.take(op, {"sizes": [1, 1]}, [null() for _ in range(count)])
    assert held() == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_memory_that_cannot_be_had_leaves_files_as_they_are() -> None:
    before = held()
    boxes = Mailboxes(grows_inbox=False)
    boxes.take("open_files", {}, [null(), null()])
    with pytest.raises(OpError, match="CUDA"):
        boxes.take("open_memory", {"sizes": [1, 1]}, [null(), null()])
    assert held() == before + 2
    assert boxes.inbox.memory is None
    assert boxes.outbox.file.size_bytes == 0
    boxes.take("open_files", {}, [null(), null()])
    assert held() == before + 2
    for box in (boxes.inbox, boxes.outbox):
        box.file.close()
