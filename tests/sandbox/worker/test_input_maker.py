# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from egg_mcp.sandbox.worker.input_maker import InputMaker, form
from egg_mcp.sandbox.worker.values import same_bytes, tensors

CPU = torch.device("cpu")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def drawn() -> list[Any]:
    return [torch.rand(8, 3), torch.randint(9, (5,)), float(torch.rand(1)), {"k": torch.randn(2)}]


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    maker = InputMaker(drawn, CPU)
    first, other, again = maker.inputs(1), maker.inputs(2), maker.inputs(1)
    assert first[2] == again[2] != other[2]
    pairs = zip(tensors(first), tensors(again), strict=True)
    assert all(same_bytes(*pair) for pair in pairs)
    assert not same_bytes(first[0], other[0])


def test_on_a_cpu_it_is_called_once_for_each_request_and_as_it_is() -> None:
    calls: list[torch.device] = []

    def get_inputs() -> list[Any]:
        calls.append(torch.empty(0).device)
        return [torch.rand(2)]

    maker = InputMaker(get_inputs, CPU)
    maker.inputs(1)
    maker.inputs(1)
    assert calls == [CPU, CPU]


def test_a_device_whose_results_cannot_be_compared_is_not_used() -> None:
    places: list[str] = []

    def get_inputs() -> list[Any]:
        places.append(torch.empty(0).device.type)
        return [torch.rand(2)]

    # The meta device stands for one that answers but cannot hold values.
    maker = InputMaker(get_inputs, torch.device("meta"))
    maker.inputs(1)
    maker.inputs(1)
    assert places[-2:] == ["cpu", "cpu"]


@pytest.mark.parametrize("value", [7, None, {"x": 1}])
def test_what_is_no_list_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not a list"):
        InputMaker(lambda: value, CPU).inputs(1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([torch.zeros(2)], [torch.zeros(3)]),
        ([torch.zeros(2, 3)], [torch.zeros(3, 2).t()]),
        ([torch.zeros(2)], [torch.zeros(2).double()]),
        ([torch.zeros(2)], (torch.zeros(2),)),
        ([torch.zeros(2)], [torch.zeros(2), None]),
        ([7], [7.0]),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_forms_differ(left: Any, right: Any) -> None:
    assert form(left) != form(right)
    assert form(left) == form(left)


def on_cpu_by_name() -> list[Any]:
    return [torch.rand(4, device="cpu"), torch.rand(4)]


def own_generator() -> list[Any]:
    return [torch.rand(4, generator=torch.Generator().manual_seed(3))]


def mixes() -> list[Any]:
    return [torch.rand(4) + torch.from_numpy(torch.ones(4, device="cpu").numpy())]


def looks() -> list[Any]:
    return [torch.rand(4 if torch.empty(0).is_cuda else 5)]


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(
    ("get_inputs", "like_cpu"),
    [(drawn, False), (on_cpu_by_name, False), (own_generator, True), (mixes, True), (looks, True)],
)
def test_on_a_gpu_inputs_are_made_there_if_they_are_of_the_same_kind(
    get_inputs: Callable[[], list[Any]], like_cpu: bool
) -> None:
    maker = InputMaker(get_inputs, torch.device("cuda", 0))
    first, again = maker.inputs(5), maker.inputs(5)
    plain = InputMaker(get_inputs, CPU).inputs(5)
    assert form(first) == form(plain)
    assert all(one.is_cuda for one in tensors(first))
    pairs = list(zip(tensors(first), tensors(again), strict=True))
    assert all(same_bytes(*pair) for pair in pairs)
    same = all(
        same_bytes(*(one.cpu() for one in pair))
        for pair in zip(tensors(first), tensors(plain), strict=True)
    )
    assert same == like_cpu
