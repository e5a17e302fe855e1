"""Sockets on a real server: who may open one, what goes wrong on one, and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging.config
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
import structlog
from fastapi import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from listening import Service, end_of, listening, refusal
from lorewell.app.access import list_keys, revoke_key
from lorewell.errors import BookNotFoundError, LorewellError
from lorewell.http import logs, sockets, websocket
from lorewell.http.sockets import Socket, SocketClosed, attend
from lorewell.http.websocket import MAX_MESSAGE_BYTES, pack
from lorewell.settings import load_settings

SECRET = "雾渡的秘密 🗝"  # noqa: S105  what a message says


async def echo(socket: Socket) -> None:
    await socket.open("read", socket.path["tenant"])
    while True:
        said = await socket.receive()
        match said:
            case "missing":
                raise BookNotFoundError("There is no such book: 雾.")
            case "bug":
                raise RuntimeError(SECRET)
            case "tell":
                await socket.send_error(LorewellError(SECRET))
            case "flood":
                while True:
                    await socket.send("灯" * 10_000)
                    await asyncio.sleep(0)
            case "end":
                return
            case "drop":
                raise SocketClosed(4408, "slow_consumer")
            case _:
                await socket.send(said)


class Echoes(Service):
    """An application with a scripted socket."""

    def connect(self, tenant: str = "demo", **given: Any) -> connect:
        return self.socket(f"/echo/{tenant}?q={SECRET}", **given)


@asynccontextmanager
async def serving(database: str, **given: Any) -> AsyncIterator[Echoes]:
    async def route(websocket: WebSocket) -> None:
        await attend(websocket, echo)

    async with listening(database, **given) as service:
        service.app.add_api_websocket_route("/echo/{tenant}", route)
        yield Echoes(service.app, service.server, service.port)


def test_messages_go_both_ways(database: str) -> None:
    async def work() -> None:
        async with serving(database) as service, service.connect() as client:
            for said in ("lamp", "雾中的灯 🏮", "", "x" * 100_000):
                await client.send(said)
                assert await client.recv() == said
            await client.send("end")
            assert await end_of(client) == (1000, "")

    asyncio.run(work())


def test_an_error_is_a_problem_and_a_close_code(database: str) -> None:
    async def work() -> None:
        async with serving(database) as service:
            async with service.connect(additional_headers={"X-Request-ID": "mine"}) as client:
                await client.send("missing")
                problem, code, reason = await refusal(client)
                assert (code, reason) == (4404, "book_not_found")
                assert problem["type"] == "urn:lorewell:problem:book_not_found"
                assert problem["detail"] == "There is no such book: 雾."
                assert (problem["status"], problem["request_id"]) == (404, "mine")
            async with service.connect() as client:
                await client.send("bug")
                problem, code, reason = await refusal(client)
                assert (code, reason, problem["details"]) == (4500, "internal_error", {})
                assert SECRET not in str(problem)
            async with service.connect() as client:
                await client.send("tell")  # it goes on
                assert json.loads(await client.recv())["problem"]["code"] == "internal_error"
                await client.send("drop")
                assert await end_of(client) == (4408, "slow_consumer")
            async with service.connect() as client:
                await client.send(b"\x00")
                assert (await refusal(client))[1] == 4422

    asyncio.run(work())


def test_a_message_that_is_too_large_ends_the_socket(database: str) -> None:
    async def work() -> None:
        async with serving(database) as service:
            half = "x" * (MAX_MESSAGE_BYTES // 2 + 1)
            for pieces in ([half * 2], [half, half]):
                async with service.connect() as client:
                    with suppress(ConnectionClosed):  # said while it is still sending
                        await client.send(pieces)
                    assert (await end_of(client))[0] == 1009

    asyncio.run(work())


def test_keys_scopes_and_tenants_hold_as_over_http(database: str) -> None:
    async def work() -> None:
        async with serving(database, auth=True) as service:
            reads = await service.key("read")
            writes = await service.key("write")
            other = await service.key("read", tenants=("other",))
            every = await service.key("read", tenants=("*",))
            for key, code, reason in (
                (None, 4401, "unauthenticated"),
                ("lw_0_0", 4401, "unauthenticated"),
                (writes, 4403, "forbidden"),
                (other, 4403, "forbidden"),
            ):
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                offered = None if key is None else ["lorewell", f"lorewell.key.{key}"]
                for given in ({"additional_headers": headers}, {"subprotocols": offered}):
                    async with service.connect(**given) as client:
                        problem, found, closed_for = await refusal(client)
                        assert (found, closed_for, problem["code"]) == (code, reason, reason)
            for key in (reads, every):
                async with service.connect(
                    additional_headers={"Authorization": f"Bearer {key}"}
                ) as client:
                    await client.send("灯")
                    assert await client.recv() == "灯"
                    assert client.subprotocol is None
                offered = [f"lorewell.key.{key}", "lorewell"]
                async with service.connect(subprotocols=offered) as client:
                    assert client.subprotocol == "lorewell"
                    assert client.response is not None
                    assert key not in str(client.response.headers)
                    await client.send("灯")
                    assert await client.recv() == "灯"
            # A header goes before a protocol, so that nobody between can be outdone by a page.
            headers = {"Authorization": f"Bearer {other}"}
            given = {"additional_headers": headers, "subprotocols": [f"lorewell.key.{reads}"]}
            async with service.connect(**given) as client:
                assert (await refusal(client))[1] == 4403

    asyncio.run(work())


def test_a_socket_without_a_key_ends_soon_whatever_its_client_does(database: str) -> None:
    async def work() -> None:
        async with serving(database, auth=True) as service:
            begin = asyncio.get_running_loop().time()
            ends = [
                asyncio.create_task(quiet_end(service.port, frames))
                for frames in (b"", b"\x89\x80\0\0\0\0" * 20_000, b"\x81\xfe\xff\xff" + b"x" * 9)
            ]
            assert all(await asyncio.gather(*ends))
            assert asyncio.get_running_loop().time() - begin < 10  # a second each, and they overlap

    asyncio.run(work())


async def quiet_end(port: int, frames: bytes) -> bool:
    """Open a socket, send frames and never close; return whether the server ended it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "GET /echo/demo HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    writer.write(head.encode() + frames)
    received = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            received += piece
    writer.close()
    return b"unauthenticated" in received


def test_a_key_that_is_revoked_ends_its_sockets(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)

    async def work() -> None:
        async with serving(database, auth=True) as service:
            key = await service.key("read")
            async with service.connect(subprotocols=[f"lorewell.key.{key}"]) as client:
                await asyncio.sleep(0.2)
                await client.send("灯")
                assert await client.recv() == "灯"
                (row,) = (await list_keys(service.services)).keys
                await revoke_key(service.services, row.id)
                assert (await refusal(client))[1:] == (4401, "unauthenticated")

    asyncio.run(work())


def test_foreign_pages_and_hosts_are_refused_before_a_socket_is_open(database: str) -> None:
    async def work() -> None:
        async with serving(database, cors_origins=("https://app.example",)) as service:
            for given, status, code in (
                ({"origin": "https://evil.example"}, 403, "forbidden"),
                ({"additional_headers": {"Origin": "null"}}, 403, "forbidden"),
            ):
                with pytest.raises(InvalidStatus) as refused:
                    await service.connect(**given)
                answer = refused.value.response
                assert answer.status_code == status
                assert json.loads(answer.body)["code"] == code
                assert answer.headers["X-Request-ID"]
            with pytest.raises(InvalidStatus):
                await connect(f"ws://127.0.0.1:{service.port}/nothing", proxy=None)
            for origin in ("https://app.example", f"http://127.0.0.1:{service.port}"):
                async with service.connect(origin=origin) as client:
                    await client.send("灯")
                    assert await client.recv() == "灯"

    asyncio.run(work())


def test_only_so_many_are_open_at_the_same_time(database: str) -> None:
    async def work() -> None:
        async with (
            serving(database, max_sockets=2) as service,
            service.connect() as one,
            service.connect(),
        ):
            async with service.connect() as third:
                problem, code, reason = await refusal(third)
                assert (code, reason) == (4503, "too_many_sockets")
                assert problem["details"] == {"limit": 2}
            await one.close()
            await asyncio.sleep(0.1)
            async with service.connect() as third:
                await third.send("灯")
                assert await third.recv() == "灯"

    asyncio.run(work())


def test_the_service_stops_at_once_though_nobody_reads(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT_S", 0.3)

    async def work() -> None:
        async with (
            serving(database) as service,
            service.connect() as quiet,
            service.connect(max_queue=1, close_timeout=0.1) as flooded,
        ):
            await flooded.send("flood")
            await asyncio.sleep(0.3)
            service.server.should_exit = True
            begin = asyncio.get_running_loop().time()
            assert (await end_of(quiet))[0] == 1012
            state = service.server.server_state
            while state.connections or state.tasks:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - begin < 3

    asyncio.run(work())


def test_the_log_has_a_line_a_socket_and_no_query_key_or_text(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(load_settings(log_format="json", log_level="debug"))
    structlog.configure(cache_logger_on_first_use=False)

    async def work() -> str:
        async with serving(database, auth=True) as service:
            key = await service.key("read")
            async with service.connect(subprotocols=[f"lorewell.key.{key}"]) as client:
                await client.send(SECRET)
                assert await client.recv() == SECRET
                await client.send("bug")
                await end_of(client)
            async with service.connect() as client:
                await end_of(client)
            admin = {"Authorization": f"Bearer {await service.key('metrics', tenants=('*',))}"}
            async with httpx.AsyncClient(headers=admin) as asking:
                figures = (await asking.get(f"http://127.0.0.1:{service.port}/metrics")).text
            assert "lorewell_sockets 0.0" in figures
            for code in ("4500", "4401"):
                wanted = f'_closed_total{{code="{code}",route="/echo/{{tenant}}"}} 1.0'
                assert wanted in figures
            return key

    try:
        key = asyncio.run(work())
    finally:
        structlog.reset_defaults()
        logging.config.dictConfig(
            {
                "version": 1,
                "disable_existing_loggers": False,
                "root": {"handlers": [], "level": "WARNING"},
            }
        )
    logged = capsys.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines() if '"event": "socket"' in line]
    assert [(line["route"], line["code"]) for line in lines] == [
        ("/echo/{tenant}", 4500),
        ("/echo/{tenant}", 4401),
    ]
    assert lines[0]["received"] == lines[0]["sent"] == 2
    for secret in (SECRET, "q=", key):
        assert secret not in logged


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_a_message_is_packed_as_the_protocol_has_it(length: int) -> None:
    text = "灯" * (length // 3) + "x" * (length % 3)
    assert pack(text) == Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
