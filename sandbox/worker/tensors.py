"""Tensors: values into trees with their bytes in a mailbox, and back.

Whatever comes from a candidate's worker is decoded here first, so `decode` trusts nothing.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

from egg_mcp.sandbox import frames
from egg_mcp.sandbox.worker.layout import DTYPES, contiguous_stride, is_dense
from egg_mcp.sandbox.worker.mailbox import IN_MEMORY, Mailbox, Place
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.transfer import read_tensor, write_tensor
from egg_mcp.sandbox.worker.values import children, dtype_name, size_bytes

MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_DIMENSIONS = 32
MAX_SIZE = 2**48
MAX_INT_BITS = 256

Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Unwritten:
    """A tensor whose bytes did not fit."""

    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Other:
    """A value that cannot travel: only its type's name did."""

    type_name: str


class Encoder:
    """Writes one value after another into a mailbox."""

    def __init__(self, mailbox: Mailbox, offset: int, parameters: bool) -> None:
        self._mailbox = mailbox
        self._parameters = parameters
        self._nodes = 0
        self.end = offset

    def encode(self, value: Any, depth: int = 0) -> Tree:
        """The value's tree; its tensors are written on the way.

        Raises:
            OpError: over `MAX_NODES` values.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise OpError("bad_output", f"more than {MAX_NODES} values in one structure")
        if depth > MAX_DEPTH:
            return _other(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            pairs = [
                [self.encode(key, depth + 1), self.encode(entry, depth + 1)]
                for key, entry in value.items()
            ]
            return {"t": "dict", "v": pairs}
        entries = children(value)
        if entries is None:
            return scalar_tree(value)
        name = "list" if isinstance(value, list) else "tuple"
        return {"t": name, "v": [self.encode(entry, depth + 1) for _, entry in entries]}

    def _tensor(self, tensor: torch.Tensor) -> Tree:
        plain = type(tensor) is torch.Tensor or (
            self._parameters and type(tensor) is torch.nn.Parameter
        )
        if not plain or tensor.layout != torch.strided or dtype_name(tensor.dtype) not in DTYPES:
            return _other(tensor)
        if tensor.device.type == "meta":
            return _other(tensor)
        tensor = tensor.detach().resolve_conj().resolve_neg()
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        if tensor.numel() == 0 or not is_dense(shape, stride):
            tensor, stride = tensor.contiguous(), contiguous_stride(shape)
        nbytes = size_bytes(tensor)
        return {
            "t": "tensor",
            "dtype": dtype_name(tensor.dtype),
            "shape": list(shape),
            "stride": list(stride),
            "nbytes": nbytes,
            **self._put(tensor, nbytes),
        }

    def _put(self, tensor: torch.Tensor, nbytes: int) -> Tree:
        """Write the bytes; where they are now."""
        start, memory = self._mailbox.allot(tensor.device, nbytes), self._mailbox.memory
        if start is not None and memory is not None:
            write_tensor(memory, start, tensor)
            return {"offset": start, "in": IN_MEMORY}
        start = frames.aligned(self.end)
        if nbytes and not self._mailbox.file.reserve(start + nbytes):
            return {"offset": None}
        write_tensor(self._mailbox.file, start, tensor)
        self.end = start + nbytes
        return {"offset": start}


def encode(
    value: Any,
    mailbox: Mailbox,
    offset: int,
    parameters: bool = True,
) -> tuple[Tree, int]:
    """The value's tree and where its bytes end in the mailbox's file.

    Args:
        value: tensors in lists, tuples and dicts, and plain values.
        mailbox: gets the bytes; a tensor that does not fit gets `"offset": null`.
        offset: where to start in the file; device memory goes on where it was, or was rewound to.
        parameters: whether an `nn.Parameter` counts as a tensor.
    """
    encoder = Encoder(mailbox, offset, parameters)
    return encoder.encode(value), encoder.end


def _other(value: object) -> Tree:
    kind = type(value)
    return {"t": "other", "v": f"{kind.__module__}.{kind.__qualname__}"[:200]}


def float_text(value: float) -> str:
    """`float.hex()`, or `nan`, `inf`, `-inf`.

    >>> float_text(1.5), float_text(float("-inf"))
    ('0x1.8000000000000p+0', '-inf')
    """
    return value.hex() if math.isfinite(value) else str(value)


SCALARS: dict[type, Callable[[Any], Tree]] = {
    type(None): lambda _: {"t": "none"},
    bool: lambda value: {"t": "bool", "v": value},
    int: lambda value: (
        {"t": "int", "v": value} if value.bit_length() <= MAX_INT_BITS else _other(value)
    ),
    float: lambda value: {"t": "float", "v": float_text(value)},
    complex: lambda value: {
        "t": "complex",
        "v": [float_text(value.real), float_text(value.imag)],
    },
    str: lambda value: {"t": "str", "v": value},
    torch.dtype: lambda value: {"t": "dtype", "v": dtype_name(value)},
    torch.device: lambda _: {"t": "device"},
}


def scalar_tree(value: Any) -> Tree:
    """The tree of a value that holds no others."""
    return SCALARS.get(type(value), _other)(value)


def decode(tree: Any, mailbox: Mailbox, device: torch.device) -> Any:
    """The value of a tree; leaves may be `Unwritten` or `Other`.

    Raises:
        OpError: kind `bad_tree`: any number, name or nesting that `encode` would not have sent.
    """
    return Decoder(mailbox, device).decode(tree)


class Decoder:
    """Reads one tree, believing none of it."""

    def __init__(self, mailbox: Mailbox, device: torch.device) -> None:
        self._mailbox = mailbox
        self._device = device
        self._nodes = 0
        self._taken_bytes = {None: 0, IN_MEMORY: 0}

    def decode(self, tree: Any, depth: int = 0) -> Any:
        """The value of one node."""
        self._nodes += 1
        if depth > MAX_DEPTH + 1 or self._nodes > MAX_NODES:
            raise _bad("nested too deep" if self._nodes <= MAX_NODES else "too many nodes")
        if not isinstance(tree, dict):
            raise _bad(f"node is a {type(tree).__name__}, not an object")
        name, value = tree.get("t"), tree.get("v")
        if name == "tensor":
            return self._tensor(tree)
        if name == "device":
            return self._device
        if name in ("list", "tuple", "dict"):
            return self._container(name, _list(value), depth)
        try:
            return _scalar(name, value)
        except (ValueError, TypeError, OverflowError) as error:
            raise _bad(f"{name!s:.40}: {error}") from None

    def _container(self, name: str, entries: list[Any], depth: int) -> Any:
        if name == "dict":
            pairs = [_list(pair, 2) for pair in entries]
            try:
                return {self.decode(k, depth + 1): self.decode(v, depth + 1) for k, v in pairs}
            except TypeError as error:
                raise _bad(f"key: {error}") from None
        values = [self.decode(entry, depth + 1) for entry in entries]
        return values if name == "list" else tuple(values)

    def _tensor(self, tree: Tree) -> torch.Tensor | Unwritten:
        dtype = DTYPES.get(str(tree.get("dtype")))
        if dtype is None:
            raise _bad(f"no dtype {tree.get('dtype')!s:.40}")
        shape = tuple(_size(entry) for entry in _list(tree.get("shape")))
        stride = tuple(_size(entry) for entry in _list(tree.get("stride"), len(shape)))
        nbytes = _size(tree.get("nbytes"))
        if len(shape) > MAX_DIMENSIONS or math.prod(shape) * dtype.itemsize != nbytes:
            raise _bad(f"{nbytes} bytes for shape {list(shape)!s:.200}")
        if tree.get("offset") is None:
            return Unwritten(dtype, shape)
        offset = _size(tree.get("offset"))
        if nbytes == 0:
            stride = contiguous_stride(shape)
        elif not is_dense(shape, stride):
            raise _bad(f"strides {list(stride)!s:.200} for shape {list(shape)!s:.200}")
        place = self._claimed(tree.get("in"), offset, nbytes)
        try:
            tensor = torch.empty_strided(shape, stride, dtype=dtype, device=self._device)
        except (RuntimeError, TypeError) as error:
            raise _bad(f"shape {list(shape)!s:.200}: {error}") from None
        read_tensor(place, offset, tensor)
        return tensor

    def _claimed(self, name: Any, offset: int, nbytes: int) -> Place:
        """Where the bytes lie; they are counted."""
        place = self._mailbox.place(name)
        size = place.size_bytes if nbytes else 0
        # Tensors never overlap, so together they can't exceed the place.
        self._taken_bytes[name] += nbytes
        if self._taken_bytes[name] > size or (nbytes and offset + nbytes > size):
            raise _bad(f"{nbytes} bytes at {offset} in a place of {size}")
        return place


def _bad(message: str) -> OpError:
    return OpError("bad_tree", f"not a value: {message}")


def _list(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise _bad(f"expected a list of {'any' if length is None else length}")
    return value


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SIZE:
        raise _bad(f"not a size: {value!s:.40}")
    return value


def _float(value: Any) -> float:
    return float(value) if value in ("nan", "inf", "-inf") else float.fromhex(value)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _bad(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _scalar(name: Any, value: Any) -> Any:
    if name == "none":
        return None
    if name in ("bool", "int", "str"):
        return _exactly({"bool": bool, "int": int, "str": str}[name], value)
    if name == "float":
        return _float(value)
    if name == "complex":
        return complex(*(_float(part) for part in _list(value, 2)))
    if name == "dtype" and value in DTYPES:
        return DTYPES[value]
    if name == "other":
        return Other(_exactly(str, value)[:200])
    raise _bad(f"type {name!s:.40}")
