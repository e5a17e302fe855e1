"""The server side of a connection, with bounds on everything a client sends or leaves unread.

The parsers alone would accept a head of any size, wait for its end forever, and parse all the small
frames, chunks or requests of a packet before serving any other client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast
from uuid import uuid4

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lorewell.errors import OverloadedError
from lorewell.http.handover import Handover
from lorewell.http.intake import IDLE, MAX_WAITING_BYTES, NEW, OVER, RequestSlot, intake_of
from lorewell.http.problems import MEDIA_TYPE, problem_of
from lorewell.http.transport import BoundedTransport
from lorewell.http.websocket import CLOSE_TIMEOUT_S, MAX_MESSAGE_BYTES, BoundedSocket
from lorewell.settings import Settings, env_name

MAX_HEAD_BYTES = 65_536
MAX_HEADERS = 100
MAX_TARGET_BYTES = 8_192  # three times the largest target of any route
MAX_PARAMETERS = 100
MAX_BLANK_BYTES = 1_024
MAX_FRAMING_BYTES = 65_536  # beyond the size of the body: chunk sizes and trailers
SLICE_BYTES = 4_096  # of a body in chunks
MAX_IGNORED_BYTES = 8 * 1024 * 1024
HEAD_TIMEOUT_S = 10.0
STOPPING = "stopping"
ON_WAIT = "on_wait"
ON_KEY = "on_key"
_MAX_LINGERING = 100
_HEAD_END = b"\n\r\n"
_PROBES = frozenset({b"/healthz", b"/readyz"})
_UNUSED = b"cookie"  # no route reads it, and parsing a large one is slow


def _refusal(status: str, text: str) -> bytes:
    """Return an answer that ends a connection before a request is complete."""
    head = "content-type: text/plain\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
    return f"HTTP/1.1 {status}\r\n{head}content-length: {len(text)}\r\n\r\n{text}".encode()


_BAD_REQUEST = _refusal("400 Bad Request", "Invalid HTTP request.\n")
_TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large",
    f"The limits of a request head are {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers.\n",
)
_TOO_LONG = _refusal(
    "414 URI Too Long",
    f"The limits of a target are {MAX_TARGET_BYTES} bytes and {MAX_PARAMETERS} parameters.\n",
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection: parses one request after the other, within bounds.

    While a request is being answered, pipelined input waits as unparsed bytes.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  as its base takes them
        max_connections: int | None = None,
        handover: Handover | None = None,
        received: bytes = b"",
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **kwargs)
        self._max_connections = max_connections
        self._handover = handover
        self._received = received  # by the process that handed the connection over
        self._head: list[bytes] = []  # of the request whose head is being read
        self._is_leaving = False  # with that head, for the other process
        self._intake = intake_of(self.server_state, self.loop)
        self._head_timer: asyncio.TimerHandle | None = None
        self._slot: RequestSlot | None = None
        self._waiting = bytearray()
        self._is_due = self._is_over = self._is_upgraded = self._is_upgrading = False
        self._was_queued = False  # before its socket opened
        self._is_in_message, self._is_in_head, self._is_plain = False, True, False
        self._is_chunked = self._has_files = False
        self._head_bytes = self._framing_bytes = self._body_left = self._ignored_bytes = 0
        self._headers_seen = self._answered = 0
        self._last = b""  # of the head, where the next piece may complete its end
        self._refusal = _BAD_REQUEST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        """Wait for a first request, if the limit allows one more connection."""
        super().connection_made(cast("asyncio.Transport", BoundedTransport(transport, self.loop)))
        most = self._max_connections
        if most is None or len(self.connections) <= most or self._intake.make_room():
            self._expect_head()
            self._intake.set_free(self, NEW, self.transport.close)
            if self._received:
                self._waiting += self._received
                self._is_due = True
                self._intake.take_later(self._parse_waiting)
            return
        self._is_over = True
        lingers = len(self.connections) <= most + _MAX_LINGERING
        self._bounds.end(_too_many(most), CLOSE_TIMEOUT_S if lingers else 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and release the input."""
        self._is_over = True
        self._waiting.clear()
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._leave_slot()
        self._intake.set_busy(self)
        self._bounds.stop_watching()
        super().connection_lost(exc)

    @property
    def _bounds(self) -> BoundedTransport:
        return cast("BoundedTransport", self.transport)

    @property
    def _is_answering(self) -> bool:
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        return is_answering or self._is_upgrading or self._is_unread

    @property
    def _is_unread(self) -> bool:
        """Whether the client has to read its answers before the next request begins."""
        return self._is_in_head and self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        """Parse input up to the end of a request; the rest waits."""
        if self._is_over:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > MAX_IGNORED_BYTES:
                self.transport.abort()
            return
        if not (self._waiting or self._is_answering):
            data = data[self._parse_slice(data) :]
            if self._is_upgraded:
                self._bounds.get_protocol().data_received(data)
                return
        self._waiting += data
        if self._is_leaving:
            self._leave()
        else:
            self._schedule_parsing()

    def _schedule_parsing(self) -> None:
        """Schedule the parsing of waiting input, unless a request has to be answered first."""
        if self._is_over:
            return
        self._bounds.hold_reading(is_held=len(self._waiting) > MAX_WAITING_BYTES)
        if not self._waiting or self._is_due or self._is_answering:
            return
        self._is_due = True
        self._intake.take_later(self._parse_waiting)

    def _parse_waiting(self) -> None:
        self._is_due = False
        if self._is_over or self._is_answering:  # its last answer may be unread since
            return
        piece = bytes(self._waiting[:MAX_WAITING_BYTES])
        del self._waiting[: self._parse_slice(piece)]
        if self._is_upgraded:
            self._bounds.get_protocol().data_received(bytes(self._waiting))
            self._waiting.clear()
        elif self._is_leaving:
            self._leave()
        else:
            self._schedule_parsing()

    def _start_asgi_task(self, *args: Any) -> None:  # noqa: ANN401  as its base takes them
        """Answer a request in its caller's turn."""
        self._enter(partial(super()._start_asgi_task, *args))

    def _enter(self, begin: Callable[[], object]) -> None:
        """Begin a request in the turn of its caller: an address with a key.

        Probes of the service's health are a caller of their own.
        """
        intake = self._intake
        header = next((value for name, value in self.headers if name == b"authorization"), b"")
        address = self.client and self.client[0]
        caller = (address, intake.key_of(header), self.url in _PROBES)
        self._slot = slot = RequestSlot(intake, caller, begin, answered=self._answered)
        self._bounds.on_write = slot.leave
        state = self.scope["state"]
        state[ON_WAIT], state[ON_KEY] = slot.leave, partial(intake.note_key, header)
        intake.enter(slot)

    def _leave_slot(self) -> None:
        if self._slot is not None:
            self._slot.leave()
            self._slot = None

    def _parse_slice(self, data: bytes) -> int:
        """Parse one slice, which begins at most one request; return its number of bytes."""
        blank = 0 if self._is_in_message else len(data) - len(data.lstrip(b"\r\n"))
        if blank:  # blank lines before a request
            self._head_bytes += blank
            if self._head_bytes > MAX_BLANK_BYTES:
                self._refuse(_BAD_REQUEST)
            return blank
        size = self._next_size(data)
        piece = data if size == len(data) else data[:size]
        if self._is_plain:
            self._read_plain_body(piece)
            return size
        return size if self._feed(piece) else len(data)

    def _feed(self, piece: bytes) -> bool:
        """Let the parser parse a piece; return whether it could."""
        is_in_head = self._is_in_head
        if is_in_head and self._handover is not None:
            self._head.append(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            if not self._is_leaving:
                self._upgrade()
        except httptools.HttpParserError:
            self._refuse(self._refusal)
            return False
        if is_in_head:
            self._count_head(piece)
        elif self._is_chunked:
            self._framing_bytes += len(piece)
            if self._framing_bytes > MAX_FRAMING_BYTES:
                self._refuse(_BAD_REQUEST)
        return True

    def _next_size(self, data: bytes) -> int:
        if self._is_in_head:
            found = (self._last + data if self._last else data).find(_HEAD_END)
            return len(data) if found < 0 else found + len(_HEAD_END) - len(self._last)
        return min(len(data), SLICE_BYTES if self._is_chunked else self._body_left or len(data))

    def _count_head(self, piece: bytes) -> None:
        if not (self._is_in_message and self._is_in_head):
            return
        self._head_bytes += len(piece)
        self._last = (self._last + piece)[1 - len(_HEAD_END) :]
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)

    def _read_plain_body(self, piece: bytes) -> None:
        """Read a body that the parser does not see."""
        self.on_body(piece)
        if not self._body_left:
            self.on_message_complete()

    def _upgrade(self) -> None:
        """Switch to the protocol that the client requests, or ignore the request to switch.

        In the second case the parser mistakes the body for the other protocol or the next request.
        """
        if self._should_upgrade():
            self._is_upgrading = True
            self._was_queued = False
            self._enter(self._open_socket)
            self._was_queued = self._is_upgrading
        elif self._is_chunked:
            self._refuse(_BAD_REQUEST)
        elif self._body_left:
            self._is_plain = self._is_in_message = self.cycle.more_body = True
            self._is_in_head = False

    def _open_socket(self) -> None:
        self._is_upgrading, self._is_upgraded = False, True
        self._intake.set_busy(self)
        self._bounds.hold_reading(is_held=False)
        self.handle_websocket_upgrade()
        if self._was_queued:  # and so does what came since
            self._bounds.get_protocol().data_received(bytes(self._waiting))
            self._waiting.clear()

    @property
    def _is_large(self) -> bool:
        """Whether another process takes the request; a small file may unpack to a large one."""
        if self._handover is None:
            return False
        is_large = self._body_left > self._handover.most_bytes
        return is_large or self._is_chunked or self._has_files

    def _leave(self) -> None:
        """Hand the connection over, with the head and the body as far as it has come."""
        handover, transport = self._handover, self.transport
        number = transport.get_extra_info("socket").fileno()
        data = b"".join((*self._head, self._waiting))
        self._is_over = True
        self._waiting.clear()
        is_read = not transport.get_write_buffer_size()  # all earlier answers
        if handover is not None and is_read and handover.pass_on(number, data):
            transport.abort()
        else:
            message = "Too many large requests wait; try again later."
            self._bounds.end(_overloaded(OverloadedError(message)), CLOSE_TIMEOUT_S)
            self._intake.set_free(self, OVER, transport.abort)

    def _refuse(self, answer: bytes) -> None:
        """End the connection, with this answer if none has begun."""
        if self._is_over:
            return
        self.logger.warning("Invalid HTTP request received.")
        self._is_over = True
        self._waiting.clear()
        cycle = self.cycle
        is_open = cycle is not None and not cycle.response_complete
        if is_open:
            cycle.disconnected = True
            cycle.message_event.set()
        if is_open and cycle.response_started:
            self.transport.close()
        else:
            self._bounds.end(answer, CLOSE_TIMEOUT_S)
            self._intake.set_free(self, OVER, self.transport.abort)

    def shutdown(self) -> None:
        """Let the running request end; signal one that would not end by itself."""
        super().shutdown()
        stopping = None if self.cycle is None else self.cycle.scope["state"].get(STOPPING)
        if stopping is not None:
            stopping.set()
            self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def pause_writing(self) -> None:
        """Wait until the client reads, with a time limit."""
        super().pause_writing()
        self._bounds.watch_reader()

    def resume_writing(self) -> None:
        """Continue writing."""
        super().resume_writing()
        self._bounds.stop_watching()
        self._schedule_parsing()

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        if self._is_answering:
            # This request came in one piece with the end of the one before. Only that one is
            # answered: the client has to connect again for the pipelined one.
            self._is_over, self.cycle.keep_alive = True, False
            return
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._is_in_message = self._is_in_head = True
        self._is_chunked = self._has_files = False
        self._head_bytes = self._framing_bytes = self._body_left = self._headers_seen = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        """Read a piece of the target, unless the target is too long to parse quickly."""
        if self._is_over:
            return
        super().on_url(url)
        parameters = self.url.count(b"&") + 1
        if len(self.url) > MAX_TARGET_BYTES or parameters > MAX_PARAMETERS:
            self._refusal = _TOO_LONG
            message = "target too long"
            raise ValueError(message)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header; ignore trailers."""
        if self._is_over or not self._is_in_head:
            return
        self._headers_seen += 1
        if self._headers_seen > MAX_HEADERS:
            self._refusal = _TOO_LARGE
            message = "too many headers"
            raise ValueError(message)
        match name.lower():
            case b"content-length":
                self._body_left = int(value)
            case b"transfer-encoding":
                self._is_chunked = True
            case b"content-type":
                self._has_files = value.lower().startswith(b"multipart/")
        if name.lower() != _UNUSED:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Complete a head."""
        if self._is_over:
            return
        self._is_in_head, self._last = False, b""
        self._stop_timer()
        self._intake.set_busy(self)
        if self._is_large and not (self.parser.should_upgrade() and self._should_upgrade()):
            self._is_leaving = True
            return
        self._head = []
        if not self.url.startswith((b"/", b"*")):
            self._use_target_host()
        super().on_headers_complete()

    def _use_target_host(self) -> None:
        """Use the host of an absolute target instead of the header (RFC 9112 §3.2.2)."""
        authority = self.url.partition(b"://")[2]
        for end in (b"/", b"?", b"#"):
            authority = authority.partition(end)[0]
        self.headers[:] = [
            *((name, value) for name, value in self.headers if name != b"host"),
            (b"host", authority),
        ]

    def on_body(self, body: bytes) -> None:
        """Read a piece of a body."""
        if self._is_over:
            return
        if self._is_chunked:
            self._framing_bytes -= 2 * len(body)
        else:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete a request."""
        if self._is_over:
            return
        super().on_message_complete()
        self._is_in_message, self._is_in_head, self._is_plain = False, True, False
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        """Continue with pipelined input."""
        super().on_response_complete()
        self._answered += 1
        self._leave_slot()
        if self._is_over:
            self.transport.close()
            return
        self._schedule_parsing()
        if not self._is_due and self._is_in_head:
            self._intake.set_free(self, IDLE, self.transport.close)

    def _expect_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close_idle)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_idle(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def _too_many(most: int) -> bytes:
    """Return the answer for a connection beyond the limit."""
    name = env_name("max_connections")
    message = f"The limit of {most} open connections is reached; see {name}."
    return _overloaded(OverloadedError(message, limit=most))


def _overloaded(error: OverloadedError) -> bytes:
    """Return an answer that ends a connection."""
    request_id = uuid4().hex
    body = json.dumps(problem_of(error, request_id)).encode()
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "retry-after": "1",
        "x-request-id": request_id,
        "connection": "close",
    }
    lines = "".join(f"{header}: {value}\r\n" for header, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body


def options(settings: Settings, **protocol: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return uvicorn's options, with more arguments for `BoundedProtocol`.

    Sockets do not compress: that would cost memory and time for each socket, while one event goes
    to hundreds of them.
    """
    return {
        # A partial, since workers need it pickled.
        "http": partial(BoundedProtocol, max_connections=settings.max_connections, **protocol),
        "ws": BoundedSocket,
        "ws_max_size": MAX_MESSAGE_BYTES,
        "ws_per_message_deflate": False,
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": 20.0,
    }
