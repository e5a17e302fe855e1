"""The server side of a WebSocket, with bounds on everything a client sends or leaves unread."""

from __future__ import annotations

import asyncio
import logging
import struct
from http import HTTPStatus
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from lorewell.http.intake import MAX_WAITING_BYTES, intake_of
from lorewell.http.transport import BoundedTransport

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_FRAGMENTS = 8_192
MAX_FRAMES, FRAMES_PER_S = 200, 20.0  # as a burst, and on average; large frames do not count
FRAME_BYTES = 1_024
SLICE_BYTES = 1_024
MAX_IGNORED_BYTES = 2 * MAX_MESSAGE_BYTES
CLOSE_TIMEOUT_S = 0.5  # in all, a refused socket is to be closed within a second
TOO_MANY_FRAMES = "too_many_frames"
SOCKET_LOGGER = "lorewell.sockets"
PACKED = "lorewell.packed"  # an ASGI extension: encoded frames
_TEXT = 0x81  # FIN and the opcode for text
_ONE_BYTE, _TWO_BYTES = 125, 65_536


class BoundedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that ends in time, whether or not the client reads.

    Input is parsed slice by slice. Small frames cost as much as large ones, so their rate is
    limited.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # The base class logs the URL of each socket with its query, and at the level DEBUG every
        # header with its keys.
        self.logger = self.conn.logger = logging.getLogger(SOCKET_LOGGER)
        self.conn.debug = False
        self._lingers = self._is_due = False
        self._waiting = bytearray()
        self._ignored_bytes = 0
        self._frames_left, self._counted_at = float(MAX_FRAMES), self.loop.time()
        self._intake = intake_of(server_state, self.loop)

    @property
    def _bounds(self) -> BoundedTransport:
        return cast("BoundedTransport", self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and release the input: this object may live for some time."""
        self._lingers = True
        self._waiting.clear()
        self._bounds.stop_watching()
        super().connection_lost(exc)
        self.frames = []
        self.conn.events_received()
        self.conn.parser.close()
        self.conn.reader.discard()
        self.conn.parser_exc = None

    def data_received(self, data: bytes) -> None:
        """Parse input, unless earlier input exceeded a limit."""
        if self._lingers:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > MAX_IGNORED_BYTES:
                self.transport.abort()
        elif not self.handshake_initiated:
            super().data_received(data)
        else:
            self._waiting += data
            self._schedule_parsing()

    def _schedule_parsing(self) -> None:
        """Schedule the parsing of waiting input, if the application has read earlier messages."""
        if self._lingers:
            return
        self._bounds.hold_reading(is_held=len(self._waiting) > MAX_WAITING_BYTES)
        can_take = self.handshake_complete and not self.read_paused
        if self._waiting and can_take and not self._is_due:
            self._is_due = True
            self._intake.take_later(self._parse_waiting)

    def _parse_waiting(self) -> None:
        self._is_due = False
        if self._lingers or self.transport.is_closing():
            return
        piece = bytes(self._waiting[:SLICE_BYTES])
        del self._waiting[:SLICE_BYTES]
        super().data_received(piece)
        self._schedule_parsing()

    def handle_events(self) -> None:
        """Handle the frames of a slice, unless there were too many small ones."""
        frames = [each for each in self.conn.events if isinstance(each, Frame)]
        now = self.loop.time()
        earned = (now - self._counted_at) * FRAMES_PER_S
        earned += sum(len(each.data) for each in frames) / FRAME_BYTES
        self._frames_left = min(self._frames_left + earned, MAX_FRAMES) - len(frames)
        self._counted_at = now
        if self._frames_left < 0 or len(self.frames) + len(frames) > MAX_FRAGMENTS:
            self.conn.fail(CloseCode.POLICY_VIOLATION, TOO_MANY_FRAMES)
            self.handle_parser_exception()
            self._bounds.hold_reading(is_held=True)  # so that the client can't reconnect at once
        else:
            super().handle_events()

    def handle_parser_exception(self) -> None:
        """Send the close frame of a parser error, and close the connection soon.

        Closing at once, while the client still sends, would reset the connection, and the client
        could lose the frame.
        """
        self._lingers = True
        self._waiting.clear()
        close_frame = self.conn.close_sent
        if close_frame is None:  # the handshake is not complete yet
            self.transport.abort()
            return
        self.close_sent = True
        self.queue.put_nowait(
            {
                "type": "websocket.disconnect",
                "code": int(close_frame.code),
                "reason": close_frame.reason,
            }
        )
        self._bounds.hold_reading(is_held=False)
        self._bounds.resume_reading()
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_timer = self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401  as its base has it
        """Handle the handshake, and announce the extension of this server."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            cast("dict[str, Any]", self.scope["extensions"])[PACKED] = {}

    def keepalive_timeout(self) -> None:
        """End the socket because the client does not answer pings."""
        super().keepalive_timeout()
        self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    async def receive(self) -> Any:  # noqa: ANN401  as its base has it
        """Return the next message."""
        message = await super().receive()
        self._schedule_parsing()
        return message

    async def send(self, message: Any) -> None:  # noqa: ANN401  as its base has it
        """Send a message; a close does not wait behind unread messages."""
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
        self._schedule_parsing()

    def shutdown(self) -> None:
        """End the socket because the server stops."""
        super().shutdown()
        self.writable.set()
        self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)


def pack(text: str) -> bytes:
    """Return the frame of a text message. Frames of a server are the same for every client.

    Source: RFC 6455 §5.2.
    """
    data = text.encode()
    length = len(data)
    if length <= _ONE_BYTE:
        return bytes((_TEXT, length)) + data
    if length < _TWO_BYTES:
        return struct.pack("!BBH", _TEXT, _ONE_BYTE + 1, length) + data
    return struct.pack("!BBQ", _TEXT, _ONE_BYTE + 2, length) + data
