# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from egg_mcp.sandbox.worker import tensors
from egg_mcp.sandbox.worker.mailbox import Mailbox
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.shared_file import SharedFile
from egg_mcp.sandbox.worker.tensors import Other, Unwritten

CPU = torch.device("cpu")


@pytest.fixture
def shared() -> Iterator[Mailbox]:
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 16)
        yield Mailbox(SharedFile(file.fileno()))


def there_and_back(value: Any, shared: Mailbox) -> Any:
    tree, _ = tensors.encode(value, shared, 0)
    return tensors.decode(tree, shared, CPU)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(3, 4).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(8, 8)[:, ::2],
        torch.randn(1, 5).expand(3, 5),
        torch.randn(10)[3:],
        torch.tensor(7.0),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.randn(4, dtype=torch.bfloat16),
        torch.randn(4).to(torch.float8_e4m3fn),
        torch.arange(5, dtype=torch.uint8),
        torch.tensor([float("nan"), float("inf"), -0.0]),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}-{tensor.stride()}",
)
def test_tensor_comes_back_as_it_was(tensor: torch.Tensor, shared: Mailbox) -> None:
    back = there_and_back([tensor], shared)[0]
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    same = torch.equal(
        back.to(torch.complex128).nan_to_num(1), tensor.to(torch.complex128).nan_to_num(1)
    )
    assert same
    if tensor.is_contiguous(memory_format=torch.channels_last) and tensor.dim() == 4:
        assert back.stride() == tensor.stride()


def test_plain_values_come_back_as_they_were(shared: Mailbox) -> None:
    value = {
        "a": (1, -2.5, None, True),
        3: [float("inf"), "text", 1 + 2j, torch.float16],
        "nested": {"b": ()},
    }
    assert there_and_back(value, shared) == value


class Own(torch.Tensor):
    pass


def test_what_is_no_plain_tensor_is_named_only(shared: Mailbox) -> None:
    sparse = torch.eye(2).to_sparse()
    for value in (torch.randn(2).as_subclass(Own), sparse, torch.empty(2, device="meta"), object()):
        assert isinstance(there_and_back(value, shared), Other)
    tree, _ = tensors.encode(torch.nn.Parameter(torch.ones(2)), shared, 0, parameters=False)
    assert tree == {"t": "other", "v": "torch.nn.parameter.Parameter"}


def test_what_does_not_fit_is_not_written(shared: Mailbox) -> None:
    tree, end = tensors.encode(torch.ones(1 << 20), shared, 0)
    assert tree["offset"] is None
    assert end == 0
    assert tensors.decode(tree, shared, CPU) == Unwritten(torch.float32, (1 << 20,))


def test_endless_nesting_ends(shared: Mailbox) -> None:
    loop: list[Any] = []
    loop.append(loop)
    tree, _ = tensors.encode(loop, shared, 0)
    tensors.decode(tree, shared, CPU)
    with pytest.raises(OpError) as caught:
        tensors.encode([[0] * 200] * 200, shared, 0)
    assert caught.value.kind == "bad_output"


def tensor_tree(**changes: Any) -> dict[str, Any]:
    tree = {
        "t": "tensor",
        "dtype": "float32",
        "shape": [2, 3],
        "stride": [3, 1],
        "offset": 0,
        "nbytes": 24,
    }
    return {**tree, **changes}


def deep(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"t": "none"}
    for _ in range(levels):
        tree = {"t": "list", "v": [tree]}
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        tensor_tree(offset=(1 << 16) - 8),
        tensor_tree(offset=-8),
        tensor_tree(offset=0.5),
        tensor_tree(offset=True),
        tensor_tree(nbytes=28),
        tensor_tree(shape=[2, -3]),
        tensor_tree(shape=[1 << 62, 1 << 62]),
        tensor_tree(shape=[1 << 40, 0], nbytes=4),
        tensor_tree(shape="23"),
        tensor_tree(stride=[1, 1]),
        tensor_tree(stride=[1 << 40, 1]),
        tensor_tree(stride=[1]),
        tensor_tree(dtype="qint8"),
        tensor_tree(dtype="__class__"),
        tensor_tree(dtype=None),
        {"t": "list", "v": [tensor_tree(shape=[1 << 14], stride=[1], nbytes=1 << 16)] * 2},
        {"t": "list", "v": [{"t": "none"}] * 10_001},
        deep(40),
        {"t": "dict", "v": [[{"t": "list", "v": []}, {"t": "none"}]]},
        {"t": "dict", "v": [[{"t": "none"}]]},
        {"t": "float", "v": "one"},
        {"t": "float", "v": 1},
        {"t": "float", "v": "0x1p+99999"},
        {"t": "int", "v": "3"},
        {"t": "complex", "v": ["0x0p+0"]},
        {"t": "dtype", "v": []},
        {"t": "other", "v": 3},
        {"t": ["list"]},
        {},
        None,
        [],
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_hostile_trees_are_refused(tree: Any, shared: Mailbox) -> None:
    with pytest.raises(OpError) as caught:
        tensors.decode(tree, shared, CPU)
    assert caught.value.kind == "bad_tree"
