# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from egg_mcp.sandbox.worker import numeric_rule
from egg_mcp.sandbox.worker.rounding import to_bf16, to_tf32

Case = tuple[str, bool, torch.Tensor]
LIMITS = {torch.float32: 16.0, torch.float16: 3.0, torch.bfloat16: 3.0}
functional = torch.nn.functional


def matmul(depth: int) -> tuple[torch.Tensor, torch.Tensor, Iterator[Case]]:
    a, b = torch.randn(256, depth), torch.randn(depth, 256)
    native = a @ b

    def cases() -> Iterator[Case]:
        zeros = torch.zeros(256, 256)
        one_by_one = zeros.clone()
        for k in range(depth):
            one_by_one += a[:, k : k + 1] * b[k : k + 1]
        tail, single = native.clone(), native.clone()
        tail[-1] = 0
        single[3, 5] *= 1.01
        tiles = [a[:, k : k + 32] @ b[k : k + 32] for k in range(0, depth, 32)]
        yield "one k at a time", True, one_by_one
        yield "tiles", True, sum(tiles, zeros)
        yield "reversed", True, a.flip(1) @ b.flip(0)
        yield "tf32", False, to_tf32(a) @ to_tf32(b)
        yield "fp16 inputs", False, a.half().float() @ b.half().float()
        yield "bf16 inputs", False, to_bf16(a) @ to_bf16(b)
        yield "last k dropped", False, a[:, :-1] @ b[:-1]
        yield "last row zero", False, tail
        yield "one element off by 1 %", False, single

    return native, a.double() @ b.double(), cases()


def softmax() -> tuple[torch.Tensor, torch.Tensor, Iterator[Case]]:
    x = torch.randn(512, 4096)

    def cases() -> Iterator[Case]:
        largest, total = torch.full((512,), -1e30), torch.zeros(512)
        for part in x.split(256, 1):
            now = torch.maximum(largest, part.max(1).values)
            total = total * torch.exp(largest - now) + torch.exp(part - now[:, None]).sum(1)
            largest = now
        powers = torch.exp2((x - largest[:, None]) * 1.44269504)
        short = torch.cat([x[:, :-1].softmax(1), torch.zeros(512, 1)], 1)
        yield "online", True, torch.exp(x - largest[:, None]) / total[:, None]
        yield "exp2", True, powers / powers.sum(1, keepdim=True)
        yield "zeros", False, torch.zeros_like(x)
        yield "1/n", False, torch.full_like(x, 1 / 4096)
        yield "fp16", False, x.half().float().softmax(1).half().float()
        yield "last column missing", False, short

    return x.softmax(1), x.double().softmax(1), cases()


def layer_norm() -> tuple[torch.Tensor, torch.Tensor, Iterator[Case]]:
    x, w, b = torch.randn(256, 4096) * 2 + 1, torch.randn(4096), torch.randn(4096)
    size = (4096,)

    def cases() -> Iterator[Case]:
        mean = x.mean(1, keepdim=True)
        two_pass = ((x - mean) ** 2).mean(1, keepdim=True)
        one_pass = (x * x).mean(1, keepdim=True) - mean * mean
        unbiased = x.var(1, keepdim=True)
        narrow = functional.layer_norm(x.bfloat16(), size, w.bfloat16(), b.bfloat16())
        yield "two passes", True, (x - mean) * torch.rsqrt(two_pass + 1e-5) * w + b
        yield "one pass", True, (x - mean) * torch.rsqrt(one_pass + 1e-5) * w + b
        yield "unbiased", False, (x - mean) * torch.rsqrt(unbiased + 1e-5) * w + b
        yield "bf16", False, narrow.float()

    wide = functional.layer_norm(x.double(), size, w.double(), b.double())
    return functional.layer_norm(x, size, w, b), wide, cases()


def gelu() -> tuple[torch.Tensor, torch.Tensor, Iterator[Case]]:
    x = torch.randn(1 << 18)

    def cases() -> Iterator[Case]:
        yield "erf", True, 0.5 * x * (1 + torch.erf(x * 0.70710678))
        yield "tanh", False, functional.gelu(x, approximate="tanh")

    return functional.gelu(x), functional.gelu(x.double()), cases()


def narrow_matmul(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, Iterator[Case]]:
    depth = 4096
    a, b = torch.randn(128, depth).to(dtype), torch.randn(depth, 128).to(dtype)

    def cases() -> Iterator[Case]:
        parts = [
            (a[:, k : k + 1024].float() @ b[k : k + 1024].float()).to(dtype)
            for k in range(0, depth, 1024)
        ]
        split = parts[0]
        for part in parts[1:]:
            split = (split.float() + part.float()).to(dtype)
        rough = torch.zeros(128, 128, dtype=dtype)
        for k in range(0, depth, 32):
            rough = (rough.float() + a[:, k : k + 32].float() @ b[k : k + 32].float()).to(dtype)
        eight = [one.float().to(torch.float8_e4m3fn).float() for one in (a, b)]
        yield "split in 4", True, split
        yield "accumulator too narrow", False, rough
        yield "fp8 inputs", False, (eight[0] @ eight[1]).to(dtype)
        yield "last k dropped", False, (a[:, :-1].float() @ b[:-1].float()).to(dtype)

    return (a.float() @ b.float()).to(dtype), a.double() @ b.double(), cases()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: matmul(512), id="matmul-512"),
        pytest.param(lambda: matmul(8192), id="matmul-8192"),
        pytest.param(softmax, id="softmax"),
        pytest.param(layer_norm, id="layer-norm"),
        pytest.param(gelu, id="gelu"),
        pytest.param(lambda: narrow_matmul(torch.float16), id="matmul-fp16"),
        pytest.param(lambda: narrow_matmul(torch.bfloat16), id="matmul-bf16"),
    ],
)
def test_honest_kernels_pass_and_others_do_not(
    make: Callable[[], tuple[torch.Tensor, torch.Tensor, Iterator[Case]]],
) -> None:
    torch.manual_seed(1)
    native, oracle, cases = make()
    expected = numeric_rule.expect(native, oracle)
    wrong: list[str] = []
    for name, honest, output in cases:
        found = numeric_rule.compare(expected, output)
        within = found.ratios["native"] <= LIMITS[native.dtype]
        if (within and found.elementwise_ok["native"]) != honest:
            wrong.append(f"{name}: ratio {found.ratios['native']:.3g}")
    assert wrong == []


def test_chunks_give_the_same_as_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    native = torch.randn(1000, 7)
    oracle = native.double() * (1 + 1e-8)
    output = native.clone()
    output[700, 3] += 1
    whole = numeric_rule.compare(numeric_rule.expect(native, oracle), output)
    monkeypatch.setattr(numeric_rule, "CHUNK_ELEMENTS", 64)
    pieces = numeric_rule.compare(numeric_rule.expect(native, oracle), output)
    assert pieces.first_bad == whole.first_bad == 700 * 7 + 3
    assert pieces.ratios["native"] == pytest.approx(whole.ratios["native"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_finite_passes_only_where_the_oracle_is_alike(value: float) -> None:
    native = torch.randn(64)
    native[5] = value
    expected = numeric_rule.expect(native, native.double())
    moved = native.clone()
    moved[5], moved[6] = 1.0, value
    assert numeric_rule.compare(expected, native).elementwise_ok["native"]
    found = numeric_rule.compare(expected, moved)
    assert not found.elementwise_ok["native"]
    assert found.first_bad == 5


def test_overflow_of_half_is_expected_as_infinity() -> None:
    oracle = torch.tensor([1.0, 70000.0], dtype=torch.float64)
    expected = numeric_rule.expect(oracle.half(), oracle)
    assert numeric_rule.compare(expected, oracle.half()).elementwise_ok["native"]
    capped = torch.tensor([1.0, 65504.0], dtype=torch.float16)
    assert not numeric_rule.compare(expected, capped).elementwise_ok["native"]


def test_complex_parts_are_judged_one_by_one() -> None:
    native = torch.randn(16, dtype=torch.complex64)
    expected = numeric_rule.expect(native, native.to(torch.complex128))
    off = native.clone()
    off[2] += 1j
    assert numeric_rule.compare(expected, native).first_bad is None
    assert numeric_rule.compare(expected, off).first_bad == 5


def test_empty_output_passes() -> None:
    native = torch.empty(0, 3)
    found = numeric_rule.compare(numeric_rule.expect(native, native.double()), native)
    assert found.elementwise_ok["native"]
    assert found.ratios["native"] == 0.0


def plainly(native: torch.Tensor, oracle: torch.Tensor, got: torch.Tensor) -> tuple[float, int]:
    """The rule as the module's head states it: ratio and how many elements are out of bound."""
    unit, count = 2.0**-24, oracle.numel()
    level = float(oracle.square().mean().sqrt())
    error = (native.double() - oracle).abs().flatten()
    own = float(error.square().mean().sqrt())
    percentile = float(error.sort().values[max(1, int(0.999 * count)) - 1])
    off = (got.double() - oracle).abs()
    bound = 8 * unit * oracle.abs() + max(8 * unit * level, 16 * percentile)
    ratio = float(off.square().mean().sqrt()) / max(own, unit * level / 4)
    return ratio, int((off > bound).sum())


@pytest.mark.parametrize("off", [0.0, 1e-7, 3e-6, 1e-5, 1e-3])
def test_what_is_quickly_seen_to_hold_is_what_the_rule_says(off: float) -> None:
    oracle = torch.randn(40, 500, dtype=torch.float64) * torch.logspace(-4, 4, 500)
    native = oracle.float() * (1 + 1e-7 * torch.randn(40, 500))
    got = native.clone()
    got[7, 11] += off * got[7, 11].abs() * 10
    ratio, bad = plainly(native, oracle, got)

    found = numeric_rule.compare(numeric_rule.expect(native, oracle), got)

    assert found.ratios["native"] == pytest.approx(ratio, rel=1e-9)
    assert found.bad_share * oracle.numel() == pytest.approx(bad)
    assert found.elementwise_ok["native"] == (bad == 0)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["got", "both", "expected"])
def test_one_element_that_is_no_number_is_never_passed_over(odd: float, where: str) -> None:
    oracle = torch.randn(1000, dtype=torch.float64)
    got = oracle.float()
    if where != "got":
        oracle[500] = odd
    expected = numeric_rule.expect(oracle.float(), oracle)
    if where != "expected":
        got[500] = odd

    found = numeric_rule.compare(expected, got)

    assert found.elementwise_ok["native"] == (where == "both")
    assert found.first_bad == (None if where == "both" else 500)
    assert found.ratios["native"] < 2
