"""The client side of the live channel: a stream that reconnects where it breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import httpx
from pydantic import Discriminator, TypeAdapter

from lorewell.client.attempts import Attempts, Retry
from lorewell.client.calls import ClientCall, Repeatability, RouteArguments, TenantOptions
from lorewell.client.connecting import Connection
from lorewell.errors import LorewellError
from lorewell.model.live import LiveFrame

PATH = "/v1/live"
_RECONNECT = Retry(attempts=30)
_KNOWN = ("ready", "selection", "missed")
_FRAME: TypeAdapter[LiveFrame] = TypeAdapter(Annotated[LiveFrame, Discriminator("type")])


class LiveWatch:
    """The watch of one prompt, over as many streams as it takes.

    The client sends `call`, passes the pieces of the answer to `feed`, and waits before the next
    stream for as long as `broke_off` or `refused` returns.
    """

    def __init__(
        self,
        connection: Connection,
        prompt_id: str,
        last_event_id: int | None,
        options: TenantOptions,
    ) -> None:
        self._connection, self._prompt_id, self._options = connection, prompt_id, options
        self._last_id = last_event_id
        self._rest = b""
        self.call = self._call()
        self._attempts: Attempts[None] = connection.attempts(self.call)

    def _call(self) -> ClientCall[None]:
        query = {"prompt_id": self._prompt_id, "last_event_id": self._last_id}
        ask = RouteArguments(method="GET", path=PATH, kind=Repeatability.READ, query=query)
        return self._connection.session.call(ask, lambda _: None, self._options)

    def feed(self, piece: bytes) -> Iterator[LiveFrame]:
        """Yield the frames that are complete with this piece of an answer."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        kind = b""
        for line in lines:
            name, _, value = line.partition(b": ")
            if name == b"event":
                kind = value
            elif name == b"data" and kind.decode() in _KNOWN:
                yield self._read(value)

    def _read(self, data: bytes) -> LiveFrame:
        try:
            frame = _FRAME.validate_json(data)
        except ValueError as error:
            message = f"The service at {self._connection.address} sent an invalid live event."
            raise LorewellError(message, reason="unreadable") from error
        match frame.type:
            case "ready":
                # Without an event so far, a reconnect resumes at the newest event of this frame.
                self._last_id = frame.last_id if self._last_id is None else self._last_id
                self._attempts = self._reconnect_attempts()
            case _:
                self._last_id = frame.id or self._last_id
        return frame

    def _reconnect_attempts(self) -> Attempts[None]:
        """Return the attempts of the next reconnect: many, unless retries are off."""
        retry = self._connection.retry
        policy = _RECONNECT if retry.attempts > 1 else retry
        return Attempts(self.call, policy, self._connection.address)

    def refused(self, response: httpx.Response) -> float:
        """Return the seconds to wait after an error response.

        Raises:
            LorewellError: the service's error, if the client does not reconnect.
        """
        return self._attempts.refused(response)

    def broke_off(self, error: httpx.RequestError | None) -> float:
        """Return the seconds to wait after a stream ended, or could not begin.

        Raises:
            UnavailableError: the client does not reconnect.
        """
        if error is None or isinstance(error, httpx.ReadTimeout):
            error = httpx.ReadError("the stream ended")
        pause_s = self._attempts.failed(error)
        self._rest, self.call = b"", self._call()
        return pause_s
