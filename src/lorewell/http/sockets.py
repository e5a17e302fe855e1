"""WebSockets: authorisation, errors and the end of a socket, shared by all routes.

A route passes its work to `attend`. An error becomes an `error` frame and a close code: 4000 plus
the HTTP status of the error. A page in a browser can't read an answer that refuses a socket, so a
socket is accepted even if only to send its error. Only the guard refuses earlier (http/guard.py):
a foreign page gets no frame.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, cast

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from lorewell.app.access import AccessNeed, authorise
from lorewell.app.live.subscription import Frame
from lorewell.app.services import Services
from lorewell.errors import (
    InvalidInputError,
    LorewellError,
    StorageUnavailableError,
    TooManySocketsError,
    UnavailableError,
)
from lorewell.http.calls import AppState
from lorewell.http.observe import COUNT, log_failure
from lorewell.http.problems import INTERNAL_ERROR, problem_of, status_of
from lorewell.http.websocket import PACKED, pack
from lorewell.model import Scope
from lorewell.settings import env_name

PROTOCOL = "lorewell"
KEY_PROTOCOL = "lorewell.key."
RECHECK_S = 60.0
_CODE_BASE = 4_000
_NORMAL = 1_000
_SEND_ERROR_S = 5.0
_MAX_WAITING = 4


class SocketClosed(Exception):  # noqa: N818  an end, not an error
    """Ends a socket with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class SocketSlots:
    """Counts open sockets and streams, up to a limit. Belongs to one event loop."""

    def __init__(self, most: int, most_of_tenant: int) -> None:
        self._most, self._most_of_tenant = most, most_of_tenant
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, tenant_id: str) -> Iterator[None]:
        """Hold a slot of a tenant within the context.

        Raises:
            TooManySocketsError: no slot is free, or the tenant has used its share.
        """
        if self._taken.total() >= self._most:
            raise _too_many(f"{self._most} open sockets", self._most, "max_sockets")
        if self._taken[tenant_id] >= self._most_of_tenant:
            most = self._most_of_tenant
            raise _too_many(f"{most} open sockets of this tenant", most, "max_tenant_sockets")
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]


def _too_many(what: str, limit: int, setting: str) -> TooManySocketsError:
    message = f"The limit of {what} is reached; see {env_name(setting)}."
    return TooManySocketsError(message, limit=limit)


async def until_revoked(check: Callable[[], Awaitable[object]]) -> None:
    """Call `check` at intervals, until it raises because the key is revoked."""
    while True:
        await asyncio.sleep(RECHECK_S)
        with suppress(UnavailableError):  # this error does not concern the key
            await check()


class Socket:
    """A client's socket, from its request to its end. Its work is cancelled when the client leaves.

    Attributes:
        query: the query parameters.
        path: the path parameters.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._messages: asyncio.Queue[str] = asyncio.Queue(_MAX_WAITING)
        self._opened = asyncio.Event()
        self._need: AccessNeed | None = None
        self._listens = False
        self._held = ExitStack()
        self.query: Mapping[str, str] = websocket.query_params
        self.path: Mapping[str, Any] = websocket.path_params

    @property
    def shared(self) -> AppState:
        """The state that all requests of the application share."""
        return cast("AppState", self._websocket.app.state.shared)

    @property
    def services(self) -> Services:
        """The services of the use cases."""
        return self.shared.services

    def header(self, name: str) -> str | None:
        """Return a header of the socket's request."""
        return self._websocket.headers.get(name)

    async def open(self, scope: Scope, tenant_id: str, *, listens: bool = True) -> None:
        """Open the socket if its key has the scope. From then on the key is checked at intervals.

        Args:
            scope: the required scope.
            tenant_id: the tenant of the books.
            listens: whether `receive` will be called; else messages of the client are dropped.

        Raises:
            UnauthenticatedError, ForbiddenError: the key is invalid or lacks the scope.
            TooManySocketsError: no slot is free.
        """
        self._need = AccessNeed(scope=scope, tenant_id=tenant_id)
        await self._authorise()
        slots = cast("SocketSlots", self._websocket.app.state.slots)
        self._held.enter_context(slots.take(tenant_id))
        self._listens = listens
        await self._accept()
        self._opened.set()

    async def receive(self) -> str:
        """Wait for the client's next message, and return it.

        When the queue is full, the socket stops reading; the process goes on.
        """
        return await self._messages.get()

    async def send(self, frame: str) -> None:
        """Send a frame; wait while the client does not read."""
        await self._websocket.send_text(frame)

    async def send_all(self, frames: Sequence[Frame]) -> None:
        """Send frames that go to many sockets; wait while the client does not read."""
        if PACKED not in self._websocket.scope["extensions"]:
            for frame in frames:
                await self.send(frame.text)
            return
        for frame in frames:
            frame.packed = frame.packed or pack(frame.text)
        data = b"".join(frame.packed for frame in frames)
        await self._websocket.send({"type": "websocket.send", PACKED: data, COUNT: len(frames)})

    async def send_error(self, error: LorewellError) -> None:
        """Send an error without closing the socket."""
        problem = problem_of(error, self._request_id)
        frame = {"type": "error", "message": problem["detail"], "problem": problem}
        # Python's encoder, as in problems.py.
        await self.send(json.dumps(frame, ensure_ascii=False).encode(errors="replace").decode())

    async def attend(self, work: Callable[[Socket], Awaitable[None]]) -> bool:
        """Run the work until it ends, the client leaves, or the key is revoked.

        Returns:
            Whether the client is still there.
        """
        working = asyncio.ensure_future(work(self))
        reading = asyncio.create_task(self._read())
        checking = asyncio.create_task(self._recheck())
        tasks = (working, reading, checking)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except WebSocketDisconnect:
            return False
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._held.close()
        return working in done

    async def close(self, code: int, reason: str) -> None:
        """Close the socket."""
        with suppress(WebSocketDisconnect, RuntimeError):  # the client may have closed it already
            await self._websocket.close(code, reason)

    async def fail(self, error: LorewellError) -> None:
        """Send an error, if the client reads it soon, and close the socket."""
        if status_of(error) == INTERNAL_ERROR or isinstance(error, StorageUnavailableError):
            log_failure(error, self._request_id)
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(_SEND_ERROR_S):
                if self._websocket.application_state is WebSocketState.CONNECTING:
                    await self._accept()
                await self.send_error(error)
        await self.close(_CODE_BASE + status_of(error), error.code)

    def log(self, error: BaseException) -> None:
        """Log an unexpected error."""
        log_failure(error, self._request_id)

    @property
    def _request_id(self) -> str:
        return str(self._websocket.scope["state"]["request_id"])

    async def _accept(self) -> None:
        offered = self._websocket.scope["subprotocols"]
        await self._websocket.accept(PROTOCOL if PROTOCOL in offered else None)

    async def _authorise(self) -> None:
        if self._need is not None:
            await authorise(self.services, self._authorization(), self._need)

    def _authorization(self) -> str | None:
        """Return the header, or the key in the subprotocols: pages can't set socket headers."""
        given = self.header("authorization")
        if given is not None:
            return given
        for offered in self._websocket.scope["subprotocols"]:
            if offered.startswith(KEY_PROTOCOL):
                return f"Bearer {offered.removeprefix(KEY_PROTOCOL)}"
        return None

    async def _read(self) -> None:
        await self._opened.wait()
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if not self._listens:
                continue
            if message.get("text") is None:
                raise InvalidInputError("A message must be text.")
            await self._messages.put(message["text"])

    async def _recheck(self) -> None:
        await self._opened.wait()
        await until_revoked(self._authorise)


async def attend(websocket: WebSocket, work: Callable[[Socket], Awaitable[None]]) -> None:
    """Run a route's work for a socket, and close the socket afterwards.

    The work opens the socket (`Socket.open`), and may raise any LorewellError before and after
    that. When it returns, the socket is closed with 1000.
    """
    socket = Socket(websocket)
    try:
        if await socket.attend(work):
            await socket.close(_NORMAL, "")
    except SocketClosed as end:
        await socket.close(end.code, end.reason)
    except LorewellError as error:
        await socket.fail(error)
    except Exception as error:  # noqa: BLE001  the last resort, as in observe.py
        socket.log(error)
        await socket.fail(LorewellError("Unexpected."))


async def refuse(websocket: WebSocket, error: LorewellError) -> None:
    """Send an error to a socket that is not open yet, and close it."""
    await Socket(websocket).fail(error)
