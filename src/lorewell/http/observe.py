"""The request id, log line and metrics of every request, and the answer to unexpected errors."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import suppress
from time import perf_counter
from typing import NoReturn
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from lorewell.app.access import on_key
from lorewell.app.computing.places import stopping
from lorewell.app.computing.pool import Computing, caller_leaves
from lorewell.app.live.hub import LiveCounts
from lorewell.app.runtime.cache import BookCache
from lorewell.errors import LorewellError, OverloadedError, StorageUnavailableError
from lorewell.http.bodies import declared_bytes
from lorewell.http.held import BODY, HeldOfProcess, Hold
from lorewell.http.metrics import Metrics
from lorewell.http.problems import answer_error
from lorewell.http.protocol import ON_KEY, ON_WAIT
from lorewell.waiting import begin_to_wait, on_wait

REQUEST_ID = "X-Request-ID"
NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
COUNT = "lorewell.count"  # the number of messages in one send
NO_ROUTE = "none"
_GONE = 499  # the client left before the answer
_NO_CODE = 1005  # RFC 6455: no code received
_REFUSED = 403  # the server's answer for a socket that is closed before it opens
_MAX_ID_CHARS = 100
_SMALL_BYTES = 65_536
_LINGER_BYTES = 4 * 1024 * 1024
_LINGER_S = 1.0
_PIECE_BYTES = 65_536  # about the server's write buffer


class BrokenOff(Exception):  # noqa: N818  not an error of ours
    """A relayed answer broke off after it had begun."""


log: FilteringBoundLogger = structlog.get_logger("lorewell.http")


class Observe:
    """The outermost ASGI middleware: no error gets past it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        cache: BookCache,
        computing: Computing,
        held: HeldOfProcess,
        live: LiveCounts | None = None,
    ) -> None:
        self._app, self._metrics, self._cache, self._live = app, metrics, cache, live
        self._computing, self._held = computing, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await self._watch(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        body, answer = Hold(self._held.bodies, scope), Hold(self._held.answers, scope)
        scope["state"][BODY] = body
        exchange = _Exchange(scope, receive, send, answer)
        token = caller_leaves.set(exchange.wait_until_gone)
        on_wait.set(scope["state"].get(ON_WAIT))
        on_key.set(scope["state"].get(ON_KEY))
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except (ClientDisconnect, BrokenOff):
            pass  # the server closes the connection of an incomplete answer
        except asyncio.CancelledError:  # the server stops, and this answer took too long
            if not exchange.status:
                await answer_error(stopping(), scope)(scope, receive, exchange.send)
            raise
        except Exception as error:  # noqa: BLE001  the last resort: logged and answered
            log_failure(error, request_id)
            if not exchange.status:
                unexpected = answer_error(LorewellError("Unexpected."), scope)
                await unexpected(scope, receive, exchange.send)
        finally:
            body.release()
            answer.release()
            caller_leaves.reset(token)
            self._record(scope, exchange.status or _GONE, perf_counter() - begin)

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        traffic = _SocketTraffic(receive, send, request_id, self._metrics)
        try:
            await self._app(scope, traffic.receive, traffic.send)
        except Exception as error:  # noqa: BLE001  the last resort: logged
            log_failure(error, request_id)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            self._metrics.socket_closed(route, traffic.code, was_open=traffic.is_open)
            log.info(
                "socket",
                route=route,
                code=traffic.code,
                seconds=round(perf_counter() - begin, 3),
                sent=traffic.sent,
                received=traffic.received,
                request_id=request_id,
            )

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self._metrics.answered(scope["method"], route, status, seconds)
        self._metrics.collect(self._cache, self._computing, self._live)
        log.info(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            request_id=scope["state"]["request_id"],
        )


async def until_gone(receive: Receive) -> None:
    """Wait until the client of an answer has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def log_failure(error: BaseException, request_id: str) -> None:
    """Log the class and place of an error, without its text, which may quote a person's text."""
    where = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in _frames(error)]
    reason = error.details.get("reason") if isinstance(error, StorageUnavailableError) else None
    log.error(
        "failure", error=type(error).__name__, where=where, reason=reason, request_id=request_id
    )


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).getlist(REQUEST_ID)
    if len(given) == 1 and 1 <= len(given[0]) <= _MAX_ID_CHARS:
        name = given[0]
        if name.isascii() and name.isprintable():
            return name
    return uuid4().hex


class _Exchange:
    """One request and its answer, as messages.

    An answer before the end of the body closes the connection, since the rest of the body would
    have to be read to find the next request. The rest is read for a moment: closing at once would
    take the answer from a client that is still sending.

    A large answer goes to the server in pieces, as the client reads them, and all its bytes count
    as held until then.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, answer: Hold) -> None:
        self._scope, self._receive, self._send, self._answer = scope, receive, send, answer
        self._is_refused = False
        headers = Headers(scope=scope)
        self._unread = _has_large_body(headers)
        self._has_body = "transfer-encoding" in headers or declared_bytes(headers) > 0
        self._lingers = False
        self.status = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message.get("more_body"):
            begin_to_wait()
        else:
            self._unread = self._has_body = False
        return message

    async def wait_until_gone(self) -> NoReturn:
        """Wait for the client to leave.

        Raises:
            ClientDisconnect: the client left.
        """
        if self._has_body:  # the route receives the messages
            await asyncio.Event().wait()
        await until_gone(self.receive)
        raise ClientDisconnect

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            try:
                self._hold(message)
            except OverloadedError as error:
                await answer_error(error, self._scope)(self._scope, self.receive, self.send)
                self._is_refused = True
                return
            self.status = message["status"]
            headers = _add_headers(message, self._scope["state"]["request_id"])
            if self._unread:
                self._lingers = True
                headers["Connection"] = "close"
        else:
            message = await self._send_most(message)
            if self._lingers and not message.get("more_body"):
                await self._send({**message, "more_body": True})
                await self._linger()
                message = {"type": "http.response.body"}
        await self._send(message)

    def _hold(self, message: Message) -> None:
        size = declared_bytes(Headers(raw=message.get("headers", [])))
        if size > _PIECE_BYTES and self._scope["method"] != "HEAD":
            self._answer.add(size)

    async def _send_most(self, message: Message) -> Message:
        """Send all but the last piece of a body, each after the one before; return the last."""
        body = message.get("body", b"")
        begin = 0
        while len(body) - begin > _PIECE_BYTES:
            piece = body[begin : begin + _PIECE_BYTES]
            await self._send({**message, "body": piece, "more_body": True})
            await asyncio.sleep(0)  # lets the server write it
            begin += _PIECE_BYTES
        return {**message, "body": body[begin:]} if begin else message

    async def _linger(self) -> None:
        read = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while self._unread and read < _LINGER_BYTES:
                    read += len((await self.receive()).get("body", b""))


class _SocketTraffic:
    """The messages of one socket. Its code is the first close code of either side.

    For a socket that was never opened, the code is the status of the refusal.
    """

    def __init__(self, receive: Receive, send: Send, request_id: str, metrics: Metrics) -> None:
        self._receive, self._send, self._metrics = receive, send, metrics
        self._request_id = request_id
        self.is_open, self.code = False, 0
        self.sent = self.received = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.receive":
            self.received += 1
        elif message["type"] == "websocket.disconnect":
            self.code = self.code or message.get("code", _NO_CODE)
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.send":
            self.sent += message.get(COUNT, 1)
        elif kind == "websocket.accept":
            self.is_open = True
            self._metrics.socket_opened()
            MutableHeaders(raw=message.setdefault("headers", []))[REQUEST_ID] = self._request_id
        elif kind == "websocket.close":
            self.code = self.code or (message.get("code", _NO_CODE) if self.is_open else _REFUSED)
        elif kind == "websocket.http.response.start":
            self.code = message["status"]
            _add_headers(message, self._request_id)
        await self._send(message)


def _add_headers(message: Message, request_id: str) -> MutableHeaders:
    """Add the headers of every answer: its id, and those that stop a browser from rendering it.

    Pages have a policy of their own (pages.py).
    """
    headers = MutableHeaders(scope=message)
    headers[REQUEST_ID] = request_id
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Content-Security-Policy", NO_PAGE)
    return headers


def _has_large_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or declared_bytes(headers) > _SMALL_BYTES
