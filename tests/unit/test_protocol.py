"""One connection, on a transport that remembers what is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from lorewell.http.intake import MAX_BEGUN
from lorewell.http.protocol import ON_KEY, BoundedProtocol

_VALID = b"Bearer lw_id_secret"
_ADDRESSES = {"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)}
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
_PASSES = 20


class Wire(asyncio.Transport):
    """A transport whose client takes nothing more after an answer, until it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: BoundedProtocol | None = None
        self.written: list[bytes] = []
        self.is_full_after = 1

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written.append(bytes(data))
        if len(self.written) >= self.is_full_after and self.protocol is not None:
            self.protocol.pause_writing()

    def close(self) -> None:
        self.protocol = None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True


async def _passes() -> None:
    for _ in range(_PASSES):
        await asyncio.sleep(0)


def test_a_request_begins_only_when_the_answer_before_it_is_read() -> None:
    begun: list[str] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": "灯".encode()})

    async def run() -> None:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        wire = Wire()
        protocol = BoundedProtocol(config, ServerState(), {})
        wire.protocol = protocol
        protocol.connection_made(wire)
        protocol.data_received(GET * 3)
        await _passes()
        assert (len(begun), len(wire.written)) == (1, 1)
        wire.is_full_after = 3
        protocol.resume_writing()
        await _passes()
        assert (len(begun), len(wire.written)) == (3, 3)
        protocol.connection_lost(None)

    asyncio.run(run())


def test_made_up_keys_make_no_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wire, "get_extra_info", lambda _, name: _ADDRESSES.get(name))
    begun: list[bytes] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        key = dict(scope["headers"])[b"authorization"]
        begun.append(key)
        if key == _VALID:
            scope["state"][ON_KEY]("id")
        await asyncio.Event().wait()

    async def run() -> None:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        state = ServerState()
        protocols = []

        async def send(key: bytes) -> None:
            protocols.append(BoundedProtocol(config, state, {}))
            protocols[-1].connection_made(Wire())
            protocols[-1].data_received(GET[:-2] + b"Authorization: " + key + b"\r\n\r\n")
            await _passes()

        await send(_VALID)
        for number in range(2 * MAX_BEGUN):
            await send(b"Bearer %d" % number)
        assert len(begun) == MAX_BEGUN
        await send(_VALID)
        assert begun[MAX_BEGUN:] == [_VALID]
        for protocol in protocols:
            protocol.connection_lost(None)

    asyncio.run(run())
