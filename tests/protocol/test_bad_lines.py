"""Lines that a client should not send: each is answered, and the server lives on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocol.real_server import RealServer, real_server

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601

NOT_JSON = {
    "words": "this is not JSON",
    "half a message": '{"jsonrpc": "2.0", "id": 5, "method"',
    "deep nesting": "[" * 100_000,
    "a number too long": "9" * 5_000,
    "two values": "{} {}",
}

NOT_A_MESSAGE: dict[str, tuple[str, int | str | None]] = {
    "an object with an id": ('{"id": 77, "nonsense": true}', 77),
    "an id that is text": ('{"id": "a", "nonsense": true}', "a"),
    "another version": ('{"jsonrpc": "1.0", "id": 78, "method": "ping"}', 78),
    "a method that is a number": ('{"jsonrpc": "2.0", "id": 79, "method": 5}', 79),
    "parameters in a list": ('{"jsonrpc": "2.0", "id": 80, "method": "ping", "params": [1]}', 80),
    "an object without an id": ('{"nonsense": true}', None),
    "a list": ("[]", None),
    "a batch": ('[{"jsonrpc": "2.0", "id": 81, "method": "ping"}]', None),
    "a text": ('"hello"', None),
    "a number": ("5", None),
    "nothing": ("null", None),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("bad_lines")
    with real_server(folder / "state", folder) as running:
        yield running


@pytest.fixture(scope="module")
def session_id(server: RealServer) -> str:
    return server.open_session()


def said(result: dict[str, Any]) -> str:
    assert result["isError"]
    text: str = result["content"][0]["text"]
    return text


def lives_on(server: RealServer) -> bool:
    """Whether the next answer is the one to the next question: the bad line had just one."""
    asked = server.start("ping", {})
    return server.message() == {"jsonrpc": "2.0", "id": asked, "result": {}}


@pytest.mark.parametrize("line", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_a_line_that_is_not_json_is_answered(server: RealServer, line: str) -> None:
    server.write(line)

    reply = server.message()
    assert reply["id"] is None
    assert reply["error"]["code"] == PARSE_ERROR
    assert lives_on(server)


@pytest.mark.parametrize(("line", "request_id"), NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE.keys())
def test_json_that_is_no_message_is_answered_under_its_id(
    server: RealServer, line: str, request_id: int | str | None
) -> None:
    server.write(line)

    reply = server.message()
    assert reply["id"] == request_id
    assert reply["error"]["code"] == INVALID_REQUEST
    assert lives_on(server)


def test_a_message_inside_a_text_is_not_obeyed(server: RealServer) -> None:
    inner = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    server.write(json.dumps({"jsonrpc": inner, "id": 82, "method": "ping"}))

    reply = server.message()
    assert (reply["id"], reply["error"]["code"]) == (82, INVALID_REQUEST)
    assert lives_on(server)


def test_bytes_that_are_not_utf8_are_answered(server: RealServer) -> None:
    assert server.process.stdin is not None
    line = b'{"jsonrpc": "2.0", "id": 83, "method": "\xff\xfe"}\n'
    os.write(server.process.stdin.fileno(), line)

    reply = server.message()
    assert (reply["id"], reply["error"]["code"]) == (83, METHOD_NOT_FOUND)
    assert lives_on(server)


@pytest.mark.parametrize("surrogate", [r"\ud800", r"\udcff"])
def test_a_lone_surrogate_in_a_kernel_is_refused_with_its_line(
    server: RealServer, session_id: str, surrogate: str
) -> None:
    # As JSON spells it: the line itself is plain ASCII.
    call = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 84,
            "method": "tools/call",
            "params": {
                "name": "design_algorithm",
                "arguments": {"session_id": session_id, "kernel_code": "# one\n# HERE\n"},
            },
        }
    )
    server.write(call.replace("HERE", surrogate))

    text = said(server.answer(84)["result"])
    assert "kernel_code" in text
    assert "line 2" in text
    assert "surrogate" in text
    assert lives_on(server)


@pytest.mark.parametrize("name", ["get_job", r"\ud800"])
def test_a_lone_surrogate_elsewhere_is_refused_in_words(server: RealServer, name: str) -> None:
    server.write(
        '{"jsonrpc": "2.0", "id": 85, "method": "tools/call", "params": '
        f'{{"name": "{name}", "arguments": {{"job_id": "\\ud800"}}}}}}'
    )

    assert said(server.answer(85)["result"])
    assert lives_on(server)


@pytest.mark.parametrize(
    ("kernel", "phrases"),
    [
        ("# x\n" * 1_300_000, ["kernel_code is 5200000 bytes", "at most 1000000"]),
        ("a = 1\n\0", ["NUL", "line 2"]),
        ("  \n", ["empty"]),
    ],
    ids=["5 MB", "NUL byte", "empty"],
)
def test_a_source_that_cannot_be_taken_is_refused_in_words(
    server: RealServer, session_id: str, kernel: str, phrases: list[str]
) -> None:
    text = said(server.tool("design_algorithm", session_id=session_id, kernel_code=kernel))

    for phrase in phrases:
        assert phrase in text
    assert server.report("session_status", session_id=session_id)["total"] == 0


def test_a_number_that_json_does_not_know_is_refused_in_words(server: RealServer) -> None:
    server.write(
        '{"jsonrpc": "2.0", "id": 86, "method": "tools/call", "params": {"name": "get_job", '
        '"arguments": {"job_id": "x", "wait_s": NaN}}}'
    )

    assert "wait_s" in said(server.answer(86)["result"])
    assert lives_on(server)
