"""Connections that never say what they want, and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from lorewell.http import protocol
from lorewell.http.protocol import BoundedProtocol
from process import free_port
from service import Api, code

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slow_app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.5)
    headers = [(b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"done"})


async def during(work: Any) -> None:
    """Run `work` with connections to a server that answers after half a second."""
    port = free_port()
    config = uvicorn.Config(
        slow_app, port=port, http=BoundedProtocol, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  it tells in no other way
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
