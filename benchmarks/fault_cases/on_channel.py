"""Faults on the wire: a candidate that writes into its channel, closes it, or lies on it."""

from __future__ import annotations

from functools import partial

from benchmarks.fault_cases.case import Case
from benchmarks.fault_cases.in_candidate import inject
from benchmarks.fault_cases.sources import candidate

_BROKEN = "crashed/broke_the_channel"
_READY = "frame({'type': 'ready', 'role': 'candidate', 'device': {}})"


def _case(name: str, expected: str, forward: str) -> Case:
    return Case(name, expected, partial(inject, source=candidate(forward=forward)))


CASES = (
    _case("garbage-on-the-channel", _BROKEN, "os.write(channel(), b'x' * 4096)"),
    _case(
        "half-a-frame-then-a-hang",
        "timed_out/hang_on_host",
        "os.write(channel(), b'EGG1')\nwhile True:\n    pass",
    ),
    _case(
        "frame-too-long",
        _BROKEN,
        "os.write(channel(), struct.pack('>4sI', b'EGG1', (1 << 32) - 1) + b'{')",
    ),
    _case(
        "frame-that-is-no-json",
        _BROKEN,
        "os.write(channel(), struct.pack('>4sI', b'EGG1', 2) + b'{{')",
    ),
    _case(
        "json-too-deep",
        _BROKEN,
        "deep = b'[' * 100_000 + b']' * 100_000\n"
        "socket.socket(fileno=os.dup(channel())).sendall(struct.pack('>4sI', b'EGG1', len(deep)) + deep)",
    ),
    _case("false-ready", _BROKEN, f"os.write(channel(), {_READY})\ntime.sleep(1000)"),
    _case(
        "reply-that-is-none", _BROKEN, "os.write(channel(), frame({'hello': 1}))\ntime.sleep(1000)"
    ),
    _case(
        "reply-with-an-odd-error",
        "crashed/raised",
        "os.write(channel(), frame({'ok': False, 'error': {'kind': 'nonsense', 'phase': 'forward',"
        " 'message': 5}}))\ntime.sleep(1000)",
    ),
    _case(
        "thousands-of-notes",
        _BROKEN,
        "one = channel()\nfor _ in range(5000):\n    os.write(one, frame({'type': 'note', 'at': 'x'}))",
    ),
    _case("channel-closed", "crashed/ended_itself", "os.close(channel())"),
    _case("channel-closed-then-a-hang", _BROKEN, "os.close(channel())\nwhile True:\n    pass"),
    _case(
        "channel-shut-down-then-a-hang",
        _BROKEN,
        "socket.socket(fileno=os.dup(channel())).shutdown(socket.SHUT_RDWR)\ntime.sleep(1000)",
    ),
    _case("all-descriptors-closed", "crashed/ended_itself", "os.closerange(0, 256)"),
)
