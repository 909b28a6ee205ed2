"""Frames: how parent and worker talk. Standard library only; both halves import this.

A frame is 4 bytes magic `EGG1`, 4 bytes big-endian length, then that many bytes of JSON, an
object. File descriptors may ride on a frame (SCM_RIGHTS). Never pickle: the worker's side may be
hostile, so whatever it sends must stay data.

Tensor bytes do not travel in frames. They lie in shared-memory files that the parent makes, or
(`"in": "memory"`) in device memory that the referee makes; a frame says where (`offset`, `nbytes`).

Values travel as trees:

    {"t": "tensor", "dtype": "float32", "shape": [2, 3], "stride": [3, 1], "offset": 0, "nbytes": 24}
    {"t": "none"}  {"t": "bool", "v": true}  {"t": "int", "v": 3}  {"t": "str", "v": "mean"}
    {"t": "float", "v": "0x1.8p+1"}          float.hex(), or "nan", "inf", "-inf"
    {"t": "complex", "v": ["0x1p+0", "0x0p+0"]}
    {"t": "list", "v": [tree, ...]}  {"t": "tuple", "v": [tree, ...]}
    {"t": "dict", "v": [[tree, tree], ...]}
    {"t": "dtype", "v": "float16"}  {"t": "device"}   the worker's own device
    {"t": "other", "v": "module.Type"}       a value that cannot travel; judged by its type alone
"""

from __future__ import annotations

import json
import struct
from typing import Any, cast

MAGIC = b"EGG1"
"""Version of the format; a change of the format changes it."""
HEADER = struct.Struct(">4sI")
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""A longer frame is refused before it is read."""
TENSOR_ALIGNMENT_BYTES = 256
"""Each tensor in a shared-memory file starts at a multiple of this."""


class FrameError(ValueError):
    """Bytes that are not a frame."""


def encode(message: dict[str, Any]) -> bytes:
    """One frame.

    Raises:
        FrameError: over `MAX_FRAME_BYTES`.

    >>> encode({"op": "ping"})[:4]
    b'EGG1'
    """
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {len(body)} bytes; the most is {MAX_FRAME_BYTES}")
    return HEADER.pack(MAGIC, len(body)) + body


def body_length(header: bytes) -> int:
    """How many bytes of JSON follow this header.

    Raises:
        FrameError: not our magic, or too long.

    >>> body_length(encode({})[:8])
    2
    """
    magic, length = HEADER.unpack(header)
    if magic != MAGIC:
        raise FrameError(f"not a frame: starts with {magic!r}, expected {MAGIC!r}")
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {length} bytes; the most is {MAX_FRAME_BYTES}")
    return length


def decode(body: bytes) -> dict[str, Any]:
    """The message in a frame's body.

    Raises:
        FrameError: not a JSON object.

    >>> decode(b'{"ok": true}')
    {'ok': True}
    """
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameError(f"not an object: {type(message).__name__}")
    return cast("dict[str, Any]", message)


def aligned(offset: int) -> int:
    """The next offset a tensor may start at.

    >>> aligned(1), aligned(256)
    (256, 256)
    """
    return -(-offset // TENSOR_ALIGNMENT_BYTES) * TENSOR_ALIGNMENT_BYTES
