"""Comparison of a candidate's outputs with the expected ones: structure, types, then values."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from egg_mcp.sandbox.worker import numeric_rule
from egg_mcp.sandbox.worker.numeric_rule import Expected
from egg_mcp.sandbox.worker.tensors import Other, Unwritten
from egg_mcp.sandbox.worker.values import children, dtype_name, is_real_float, tensors

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Exact:
    """An output of integers or booleans."""

    values: torch.Tensor


def expect_all(
    native: Any,
    oracle: Any,
    finer: bool,
    rounded: dict[str, Any],
) -> Any:
    """The native outputs' structure with an `Expected` or `Exact` for each tensor.

    Args:
        native: the reference's outputs.
        oracle: the same from float64 or float32, tensors in the same order.
        finer: whether the oracle is of higher precision.
        rounded: outputs by form, `tf32` and `bf16`; those with other tensors are left out.
    """
    native_tensors = tensors(native)
    shapes = [one.shape for one in native_tensors]
    found = {form: tensors(values) for form, values in rounded.items()}
    forms = {form: cut for form, cut in found.items() if [one.shape for one in cut] == shapes}
    made: list[Expected | Exact] = []
    for index, (one, wide) in enumerate(zip(native_tensors, tensors(oracle), strict=True)):
        if not is_real_float(one):
            made.append(Exact(one.detach().clone()))
            continue
        has_forms = one.dtype in (torch.float32, torch.complex64)
        cut = {form: values[index] for form, values in forms.items()} if has_forms else {}
        made.append(numeric_rule.expect(one, wide, finer and one.dtype != wide.dtype, cut))
    queue = iter(made)
    return _replace(native, queue)


def _replace(value: Any, queue: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(queue)
    if isinstance(value, dict):
        return {key: _replace(entry, queue) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [_replace(entry, queue) for entry in value]
        return entries if isinstance(value, list) else tuple(entries)
    return value


class Judge:
    """Compares one call's outputs; `records` and `structure` hold what was found."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.structure: str | None = None

    def compare(self, expected: Any, got: Any, name: str = "outputs") -> None:
        """Compare a whole output value."""
        if isinstance(expected, (Expected, Exact)):
            name += "[0]"
        self._compare(expected, got, name)

    def _compare(self, expected: Any, got: Any, name: str) -> None:
        if isinstance(expected, (Expected, Exact)):
            if isinstance(got, (torch.Tensor, Unwritten)):
                self.records.append(_judge_tensor(expected, got, name))
            else:
                self._differs(f"{name} is {_kind(got)}; expected a torch.Tensor")
        elif children(expected) is None:
            self._scalar(expected, got, name)
        else:
            self._container(expected, got, name)

    def _container(self, expected: Any, got: Any, name: str) -> None:
        wanted = list if isinstance(expected, list) else type(expected)
        if not isinstance(got, wanted):
            self._differs(f"{name} is {_kind(got)}; expected a {wanted.__name__}")
        elif isinstance(expected, dict):
            if set(expected) != set(got):
                self._differs(f"{name} has keys {_keys(got)}; expected {_keys(expected)}")
                return
            for key, entry in expected.items():
                self._compare(entry, got[key], f"{name}[{key!r}]")
        elif len(expected) != len(got):
            self._differs(f"{name} has {len(got)} entries; expected {len(expected)}")
        else:
            for index, (entry, own) in enumerate(zip(expected, got, strict=True)):
                self._compare(entry, own, f"{name}[{index}]")

    def _scalar(self, expected: Any, got: Any, name: str) -> None:
        if isinstance(expected, (bool, int, float, complex, str, torch.dtype)):
            both_nan = _is_nan(expected) and _is_nan(got)
            same = type(got) is type(expected) and (got == expected or both_nan)
        elif expected is None or isinstance(expected, torch.device):
            same = type(got) is type(expected)
        else:
            kind = type(expected)
            same = got == Other(f"{kind.__module__}.{kind.__qualname__}"[:200])
        if not same:
            self._differs(f"{name} is {_kind(got)}; expected {expected!r:.80}")

    def _differs(self, what: str) -> None:
        # The first difference explains those after it.
        self.structure = self.structure or what


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _kind(value: Any) -> str:
    if isinstance(value, Other):
        return f"a {value.type_name}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, (torch.Tensor, Unwritten)):
        return f"a tensor of shape {list(value.shape)}"
    return f"{value!r:.80}"


def _keys(value: dict[Any, Any]) -> str:
    return f"{sorted(map(repr, value))!s:.300}"


def _judge_tensor(expected: Expected | Exact, got: torch.Tensor | Unwritten, name: str) -> Record:
    wanted = expected.values if isinstance(expected, Exact) else expected
    if got.dtype != wanted.dtype:
        what = f"dtype is {dtype_name(got.dtype)}; expected {dtype_name(wanted.dtype)}"
        return _record(name, got.dtype, mismatch=_mismatch(what))
    if tuple(got.shape) != tuple(wanted.shape):
        what = f"shape is {list(got.shape)}; expected {list(wanted.shape)}"
        return _record(name, got.dtype, mismatch=_mismatch(what))
    if isinstance(got, Unwritten):
        return _record(name, got.dtype, mismatch=_mismatch("its bytes did not fit the outbox"))
    if isinstance(expected, Exact):
        return _judge_exact(expected.values, got, name)
    return _judge_floats(expected, got, name)


def _judge_exact(expected: torch.Tensor, got: torch.Tensor, name: str) -> Record:
    differ = (expected != got).reshape(-1)
    count = int(differ.sum())
    if not count:
        return _record(name, got.dtype, ok=True, exact=True)
    first = int(differ.nonzero()[0, 0])
    mismatch = _mismatch(
        f"{count} of {differ.numel()} values differ; this dtype must match exactly",
        _index(first, got.shape),
        numeric_rule.describe(got, first),
        numeric_rule.describe(expected, first),
        count / differ.numel(),
    )
    return _record(name, got.dtype, exact=False, mismatch=mismatch)


def _judge_floats(expected: Expected, got: torch.Tensor, name: str) -> Record:
    found = numeric_rule.compare(expected, got)
    mismatch = None
    if found.first_bad is not None:
        pair = 2 if got.is_complex() else 1
        share = f"{100 * found.bad_share:.3g} %"
        mismatch = _mismatch(
            f"{share} of the elements are further off than rounding explains",
            _index(found.first_bad // pair, got.shape),
            numeric_rule.describe(got, found.first_bad),
            f"{float(expected.oracle[found.first_bad]):.9g}",
            found.bad_share,
        )
    record = _record(name, got.dtype, mismatch=mismatch)
    for form, suffix in (("native", ""), ("tf32", "_tf32"), ("bf16", "_bf16")):
        record[f"ratio{suffix}"] = found.ratios[form]
        record[f"elementwise_ok{suffix}"] = found.elementwise_ok[form]
    return record


def _record(
    name: str,
    dtype: torch.dtype,
    ok: bool = False,
    exact: bool | None = None,
    mismatch: Record | None = None,
) -> Record:
    return {
        "name": name,
        "dtype": dtype_name(dtype),
        **dict.fromkeys(("ratio", "ratio_tf32", "ratio_bf16")),
        **dict.fromkeys(("elementwise_ok", "elementwise_ok_tf32", "elementwise_ok_bf16"), ok),
        "exact": exact,
        "mismatch": mismatch,
    }


def _mismatch(
    what: str,
    index: list[int] | None = None,
    got: str | None = None,
    expected: str | None = None,
    bad_share: float | None = None,
) -> Record:
    return {
        "what": what,
        "index": index,
        "got": got,
        "expected": expected,
        "bad_share": bad_share,
    }


def _index(flat: int, shape: tuple[int, ...]) -> list[int]:
    index: list[int] = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return index[::-1]
