from __future__ import annotations

import math
from typing import Any

import pytest

from egg_mcp.sandbox import frames
from egg_mcp.sandbox.frames import HEADER, MAGIC, FrameError, aligned, body_length, decode, encode


def _there_and_back(message: dict[str, Any]) -> dict[str, Any]:
    frame = encode(message)
    body = frame[HEADER.size :]
    assert body_length(frame[: HEADER.size]) == len(body)
    return decode(body)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"op": "call", "inputs": {"t": "tensor", "shape": [2, 3], "offset": 0}},
        {"text": "é \U0001f600 \x00 \n", "none": None, "deep": [[[{"a": [True, -1, 1.5]}]]]},
        {"float": (0.1).hex(), "vast": 2**200},
        {"half a pair": "\ud800"},
    ],
)
def test_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    assert _there_and_back(message) == message


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_odd_number_is_not_sent(odd: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode({"value": odd})


def test_value_that_is_no_data_is_not_sent() -> None:
    with pytest.raises(TypeError):
        encode({"value": object()})


def test_frame_over_the_limit_is_refused_by_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 20)
    assert encode({"a": "x" * 12})
    with pytest.raises(FrameError, match="the most is 20"):
        encode({"a": "x" * 13})
    assert body_length(HEADER.pack(MAGIC, 20)) == 20
    with pytest.raises(FrameError, match="frame of 21 bytes"):
        body_length(HEADER.pack(MAGIC, 21))


def test_length_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(FrameError, match="frame of 4294967295 bytes"):
        body_length(HEADER.pack(MAGIC, 2**32 - 1))


@pytest.mark.parametrize("magic", [b"EGG0", b"EGG2", b"\0\0\0\0", b"prin"])
def test_other_magic_is_refused(magic: bytes) -> None:
    with pytest.raises(FrameError, match="not a frame"):
        body_length(HEADER.pack(magic, 2))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"[]", "not an object: list"),
        (b"null", "not an object: NoneType"),
        (b'"text"', "not an object: str"),
        (b"1", "not an object: int"),
        (b"\x80\x04\x95", "not JSON"),
    ],
)
def test_hostile_body_is_a_frame_error(body: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        decode(body)


def test_offsets_are_aligned_upwards() -> None:
    assert [aligned(offset) for offset in (0, 1, 255, 256, 257)] == [0, 256, 256, 256, 512]
