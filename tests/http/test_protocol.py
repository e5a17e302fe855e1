"""Connections that never say what they want, and clients that go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from lorewell.http import intake, protocol, transport
from lorewell.http.protocol import BoundedProtocol
from process import free_port
from service import Api, code

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slow_app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.5)
    headers = [(b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"done"})


async def telling_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what was understood of a request."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    seen = {
        "method": scope["method"],
        "path": scope["path"],
        "headers": [[name.decode(), value.decode()] for name, value in scope["headers"]],
        "body": body.decode(),
    }
    if scope["path"] == "/large":
        seen["large"] = "x" * 20_000_000
    content = json.dumps(seen).encode()
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def during(work: Any, app: Any = slow_app, **given: Any) -> None:
    """Run `work` with connections to a server, which answers after half a second."""
    port = free_port()
    config = uvicorn.Config(
        app,
        port=port,
        http=partial(BoundedProtocol, **given),  # type: ignore[arg-type]  # it makes one
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  it offers no event for this
        await asyncio.sleep(0.01)

    async def connect() -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    try:
        await asyncio.wait_for(work(connect), 10)
    finally:
        server.should_exit = True
        await running


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.2)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        assert await reader.read() == b""
        writer.close()

    run(during(work))


def test_a_head_that_never_ends_is_closed() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        assert await reader.read() == b""
        writer.close()

    run(during(work))


def test_a_head_that_is_too_large_is_refused() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()

    run(during(work))


def test_a_request_that_is_being_answered_is_not_cut_off() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(whole + whole[:10])  # the next one begins before this one is answered
        assert b"done" in await reader.readuntil(b"done")
        assert await reader.read() == b""
        writer.close()

    run(during(work))


def test_connections_are_used_again() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"done")
        writer.close()

    run(during(work))


async def answer_of(reader: asyncio.StreamReader) -> Any:
    """Return the JSON of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return json.loads(await reader.readexactly(int(length)))


CHUNKED = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_what_follows_a_body_never_becomes_a_header() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        trailers = b"Authorization: Bearer x\r\nHost: b\r\nExpect: 100-continue\r\n"
        writer.write(CHUNKED + b"1;name=value\r\nx\r\n0\r\n" + trailers)
        await asyncio.sleep(0.05)  # the application waits for the body, so it has begun
        writer.write(b"X-Request-ID: y\r\n\r\nGET /b HTTP/1.1\r\nHost: c\r\n\r\n")
        seen = await answer_of(reader)
        assert seen["headers"] == [["host", "a"], ["transfer-encoding", "chunked"]]
        assert seen["body"] == "x"
        writer.close()

    run(during(work, telling_app))


def test_a_request_in_one_piece_with_the_end_of_chunks_has_to_be_sent_again() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(CHUNKED + b"1\r\nx\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\nGET /b HTTP/1.1\r\nHost: c\r\n\r\n" * 2)
        assert (await answer_of(reader))["path"] == "/a"
        assert await reader.read() == b""
        writer.close()

    run(during(work, telling_app))


@pytest.mark.parametrize("kind", ["chunks", "extension", "trailers", "trailer"])
def test_framing_beyond_what_a_body_needs_is_refused(kind: str) -> None:
    sent = {
        "chunks": b"1\r\nx\r\n" * 30_000,
        "extension": b"1;" + b"a=b;" * 20_000,
        "trailers": b"0\r\n" + b"a: b\r\n" * 20_000,
        "trailer": b"0\r\na: " + b"b" * 80_000,
    }

    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(CHUNKED + sent[kind])
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()

    run(during(work, telling_app))


def test_chunks_of_any_usual_size_are_taken() -> None:
    async def work(connect: Any) -> None:
        for size, count in ((10, 20_000), (2, 5_000), (4_096, 200), (300_000, 2)):
            reader, writer = await connect()
            writer.write(CHUNKED)
            chunk = b"%x\r\n%b\r\n" % (size, b"\n\r\n0\r\n\r\n"[:size].ljust(size, b"x"))
            writer.write(chunk * count + b"0\r\n\r\n")
            assert len((await answer_of(reader))["body"]) == size * count
            writer.write(b"GET /b HTTP/1.1\r\nHost: c\r\n\r\n")
            assert (await answer_of(reader))["path"] == "/b"
            writer.close()

    run(during(work, telling_app))


@pytest.mark.parametrize(
    ("largest", "more"),
    [
        (b"/a?" + b"x" * 8_189, b"x"),
        (b"/a?" + b"&".join([b"x"] * 100), b"&x"),
        (b"/" + b"a/" * 4_095 + b"a", b"/"),
    ],
    ids=["query", "parameters", "path"],
)
def test_a_target_that_is_too_long_is_refused(largest: bytes, more: bytes) -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(b"GET " + largest + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await answer_of(reader))["method"] == "GET"
        writer.write(b"GET " + largest + more + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 414 ")
        assert b"8192 bytes and 100 parameters" in answer
        writer.close()

    run(during(work, telling_app))


def test_cookies_are_counted_and_let_go() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        cookie = b"Cookie: " + b"a=b; " * 12_000 + b"\r\n"
        writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n" + cookie + b"\r\n")
        assert (await answer_of(reader))["headers"] == [["host", "a"]]
        writer.write(b"GET /a HTTP/1.1\r\n" + b"Cookie:\r\n" * 101 + b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()

    run(during(work, telling_app))


def test_too_many_headers_are_refused() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(b"GET /a HTTP/1.1\r\n" + b"a: b\r\n" * 100 + b"\r\n")
        assert len((await answer_of(reader))["headers"]) == 100
        writer.write(b"GET /a HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()

    run(during(work, telling_app))


@pytest.mark.parametrize(
    "bad",
    [
        b"\r\n" * 600,
        b"nonsense",
        b"GET /a HTTP/1.1\nHost: a\n\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        CHUNKED[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(bad: bytes) -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(bad)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()

    run(during(work, telling_app))


def test_a_body_that_breaks_off_its_chunks_ends_the_request() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(CHUNKED + b"1\r\nx\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"nonsense\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()

    run(during(work, telling_app))


def test_an_upgrade_that_nobody_knows_is_ignored_and_its_body_is_read() -> None:
    upgrade = b"Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"

    async def work(connect: Any) -> None:
        reader, writer = await connect()
        smuggled = b"GET /smuggled HTTP/1.1\r\n\r\n"
        for _ in range(2):
            writer.write(b"POST /a HTTP/1.1\r\n" + upgrade + b"Content-Length: 26\r\n\r\n")
            writer.write(smuggled[:10])
            await asyncio.sleep(0.02)
            writer.write(smuggled[10:] + b"GET /b HTTP/1.1\r\n" + upgrade + b"\r\n")
            first, second = await answer_of(reader), await answer_of(reader)
            assert (first["path"], first["body"]) == ("/a", smuggled.decode())
            assert (second["path"], second["body"]) == ("/b", "")
        writer.close()

    run(during(work, telling_app))


def test_the_host_of_an_absolute_target_counts() -> None:
    async def work(connect: Any) -> None:
        reader, writer = await connect()
        for target, host in (
            (b"http://evil.example/x?q#f", "evil.example"),
            (b"http://me@localhost/", "me@localhost"),
        ):
            writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await answer_of(reader))["headers"] == [["host", host]]
        writer.write(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await answer_of(reader))["headers"] == [["host", "localhost"]]
        writer.close()

    run(during(work, telling_app))


def test_heads_in_pieces_and_requests_ahead_are_taken_apart_rightly() -> None:
    one = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n"

    async def work(connect: Any) -> None:
        for size in (1, 2, 3, 7, 50, 1_000):
            reader, writer = await connect()
            data = one * 5
            for at in range(0, len(data), size):
                writer.write(data[at : at + size])
                await asyncio.sleep(0)
            for _ in range(5):
                assert (await answer_of(reader))["body"] == "abc"
            writer.close()

    run(during(work, telling_app))


def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CHECK_READER_S", 0.1)

    async def work(connect: Any) -> None:
        for end in (b"\r\n", b"Connection: close\r\n\r\n"):
            reader, writer = await connect()
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n" + end)
            await asyncio.sleep(2)  # a busy machine takes a while to make the answer
            received = 0
            with suppress(ConnectionError):
                while piece := await reader.read(65_536):
                    received += len(piece)
            assert received < 20_000_000
            writer.close()

    run(during(work, telling_app))


def test_a_client_that_reads_slowly_gets_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CHECK_READER_S", 0.3)

    async def work(connect: Any) -> None:
        reader, writer = await connect()
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = 0
        while piece := await reader.read(1_000_000):
            received += len(piece)
            await asyncio.sleep(0.002)
        assert received > 20_000_000
        writer.close()

    run(during(work, telling_app))


def test_idle_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "IDLE_S", 0.05)
    whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    async def work(connect: Any) -> None:
        (kept, first), (new, second) = await connect(), await connect()
        first.write(whole)
        await answer_of(kept)
        third = await connect()  # takes the place of the one that never sent anything
        assert await new.read() == b""
        third[1].write(whole)
        await answer_of(third[0])
        await asyncio.sleep(0.06)
        fourth = await connect()  # takes the place of the one that was idle for longest
        assert await kept.read() == b""
        for _ in range(2):
            third[1].write(whole)
            fourth[1].write(whole)
            await answer_of(third[0])
            await answer_of(fourth[0])
        refused, fifth = await connect()  # both are in use
        assert (await refused.read()).startswith(b"HTTP/1.1 503 ")
        for writer in (first, third[1], fourth[1], fifth, second):
            writer.close()

    run(during(work, telling_app, max_connections=2))


def test_a_client_that_goes_away_gets_nothing(api: Api) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = {"host": "localhost", "content-type": "application/json", "content-length": "9"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/books",
        "query_string": b"tenant_id=demo",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    api.run(api.app(scope, receive, send))
    assert sent == []
    assert 'status="499"' in api("GET", "/metrics", tenant=None).text


def test_other_errors_of_the_framework_have_our_shape(api: Api) -> None:
    async def teapot() -> None:
        raise HTTPException(418)

    api.app.add_api_route("/teapot", teapot)
    answer = api("GET", "/teapot")
    assert (answer.status_code, code(answer)) == (422, "validation_error")
