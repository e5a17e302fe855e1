"""The server's side of a connection, with bounds on heads, on messages, and on who never reads.

The parser itself would take a head of any size, and wait for its end for ever.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_S = 10.0
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
CLOSE_TIMEOUT_S = 2.0
SOCKET_LOGGER = "lorewell.sockets"
STOPPING = "stopping"
PACKED = "lorewell.packed"  # an extension of ASGI: messages that are packed already
_TEXT = 0x81  # whole
_ONE_BYTE, _TWO_BYTES = 125, 65_536
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Corked:
    """A transport that sends together what is written in one step of the loop.

    The head and the body of an answer would be two system calls, and those take longer than
    anything else in a small answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = b"".join(self._held), []
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever a transport has
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request begins with too much, or takes too long to begin."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  as its base takes them
        super().__init__(*args, **kwargs)
        self._is_in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        """Wait for a first request."""
        super().connection_made(cast("asyncio.Transport", _Corked(transport, self.loop)))
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what was sent, unless the head has become too large."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def shutdown(self) -> None:
        """Let the request that runs end; one that would not by itself is told so."""
        super().shutdown()
        stopping = None if self.cycle is None else self.cycle.scope["state"].get(STOPPING)
        if stopping is not None:
            stopping.set()
            self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def on_message_begin(self) -> None:
        """Expect a head."""
        super().on_message_begin()
        self._is_in_head = True
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Have one."""
        self._is_in_head, self._head_bytes = False, 0
        self._stop_timer()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_head()  # a request before this one is still being answered
        elif not self.transport.is_closing():
            self.transport.close()


class BoundedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that ends when it shall, whether or not the other side reads what it was sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  as its base takes them
        super().__init__(*args, **kwargs)
        # Its base logs the address of each socket, with the query, and where somebody debugs every
        # header, with the keys.
        self.logger = self.conn.logger = logging.getLogger(SOCKET_LOGGER)
        self.conn.debug = False
        self._lingers = False

    def data_received(self, data: bytes) -> None:
        """Take what was sent, unless something before it was already too much."""
        if not self._lingers:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """Say what can't be taken, and end soon.

        To close at once, while the client still sends, would reset the connection, and with it
        take away what was said.
        """
        said = self.conn.close_sent
        assert said is not None  # noqa: S101  the parser has said it
        self._lingers = self.close_sent = True
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": said.code, "reason": said.reason}
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_timer = self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.close)

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401  as its base has it
        """Begin, and say what this server knows beside what all do."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            cast("dict[str, Any]", self.scope["extensions"])[PACKED] = {}

    async def send(self, message: Any) -> None:  # noqa: ANN401  as its base has it
        """Send a message; one that closes the socket does not wait behind those nobody reads."""
        if PACKED in message:
            await self.writable.wait()
            if self.disconnected or self.conn.state is not State.OPEN:
                raise ClientDisconnected
            self.transport.write(message[PACKED])
            return
        if message["type"] == "websocket.close":
            self.writable.set()
            self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)
        await super().send(message)

    def shutdown(self) -> None:
        """End the socket since the server does."""
        super().shutdown()
        self.writable.set()
        self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)


def pack(text: str) -> bytes:
    """Return a text message as it is on the wire: that of a server is the same for everybody.

    Source: RFC 6455 §5.2.
    """
    data = text.encode()
    length = len(data)
    if length <= _ONE_BYTE:
        return bytes((_TEXT, length)) + data
    if length < _TWO_BYTES:
        return struct.pack("!BBH", _TEXT, _ONE_BYTE + 1, length) + data
    return struct.pack("!BBQ", _TEXT, _ONE_BYTE + 2, length) + data


# What uvicorn has to be told. Nothing is packed: that would take a window's memory and time for
# each socket, where one event goes to hundreds of them.
OPTIONS: Mapping[str, Any] = {
    "http": BoundedProtocol,
    "ws": BoundedSocket,
    "ws_max_size": MAX_MESSAGE_BYTES,
    "ws_per_message_deflate": False,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
}
