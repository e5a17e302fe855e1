"""The text of a reply, read while its bytes pass."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from lorewell.http import reply_reader
from lorewell.http.reply_reader import ReplyReader

JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
REPLY = json.dumps({"choices": [{"message": {"content": "灯塔 🚪"}}]}).encode()
STREAM = b"".join(
    b"data: %s\n\n" % json.dumps({"choices": [{"delta": {"content": each}}]}).encode()
    for each in ("灯", "塔", " 🚪")
)


def read(
    body: bytes, *headers: tuple[bytes, bytes], status: int = 200, size: int = 7
) -> ReplyReader:
    reader = ReplyReader(status, headers)
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size])
    return reader


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (REPLY, [JSON]),
        (STREAM, [EVENTS]),
        (gzip.compress(REPLY, mtime=0), [JSON, (b"content-encoding", b"gzip")]),
        (zlib.compress(STREAM), [EVENTS, (b"content-encoding", b"deflate")]),
    ],
)
def test_text_is_read(body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    assert read(body, *headers).text() == "灯塔 🚪"


def test_end_is_known_before_the_answer_ends() -> None:
    assert not read(STREAM, EVENTS).is_done
    assert read(STREAM + b"data: [DONE]\n\n", EVENTS).is_done
    assert not read(REPLY, JSON).is_done
    assert read(REPLY, JSON, (b"content-length", str(len(REPLY)).encode())).is_done


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (REPLY, [JSON], 500),
        (REPLY, [JSON, (b"content-encoding", b"br")], 200),
        (REPLY, [JSON, (b"content-encoding", b"gzip")], 200),
        (REPLY[:-1], [JSON], 200),
        (b"", [JSON], 200),
        (b"data: {}\n\n" + STREAM, [EVENTS], 200),
        (b"", [EVENTS], 200),
        (json.dumps({"choices": [{"message": {"content": " "}}]}).encode(), [JSON], 200),
        (
            json.dumps({"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]}).encode(),
            [JSON],
            200,
        ),
    ],
)
def test_other_answers_have_no_text(
    body: bytes, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    assert read(body, *headers, status=status).text() is None


def test_long_answers_have_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_reader, "MAX_BYTES", 1_000)
    long = json.dumps({"choices": [{"message": {"content": "a" * 1_000}}]}).encode()
    assert read(long, JSON).text() is None
    packed = gzip.compress(long, mtime=0)
    assert read(packed, JSON, (b"content-encoding", b"gzip"), size=len(packed)).text() is None
