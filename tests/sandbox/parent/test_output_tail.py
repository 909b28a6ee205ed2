from __future__ import annotations

import random

import pytest

from egg_mcp.sandbox.output_tail import OutputTail


def test_short_output_is_kept_whole() -> None:
    tail = OutputTail(100)
    assert tail.text() == ""
    for chunk in (b"", b"one ", b"two"):
        tail.feed(chunk)
    assert tail.text() == "one two"
    tail.feed(b"x" * 93)
    assert tail.text() == "one two" + "x" * 93


@pytest.mark.parametrize("seed", range(30))
def test_chunks_of_any_size_keep_the_same(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same chunks each time
    data = bytes(draw.choices(b"abcdefgh\n", k=draw.randrange(400)))
    limit = draw.randrange(8, 120)
    whole, pieces = OutputTail(limit), OutputTail(limit)
    whole.feed(data)
    rest = data
    while rest:
        size = draw.randrange(1, 50)
        pieces.feed(rest[:size])
        rest = rest[size:]
    assert pieces.text() == whole.text()
    if len(data) <= limit:
        assert whole.text() == data.decode()
    else:
        head, end = limit // 4, limit - limit // 4
        gap = f"\n[{len(data) - limit} bytes left out]\n"
        assert whole.text() == data[:head].decode() + gap + data[-end:].decode()


def test_flood_keeps_start_end_and_count() -> None:
    tail = OutputTail(16)
    for number in range(10_000):
        tail.feed(b"%05d" % number)
    assert tail.text() == "0000\n[49984 bytes left out]\n970999809999"


def test_end_alone_is_cut_to_the_bytes_asked_for() -> None:
    tail = OutputTail(1_000)
    tail.feed(b"0123456789")
    assert tail.text(4) == "6789"
    assert tail.text(1_000) == "0123456789"


def test_broken_characters_are_replaced() -> None:
    tail = OutputTail(100)
    tail.feed(b"\xff\x00\xf0\x9f" + "é".encode())
    assert tail.text() == "\ufffd\x00\ufffdé"
    tail.text().encode("utf-8")
