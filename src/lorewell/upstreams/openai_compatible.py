"""Replies from any server that speaks OpenAI's protocol: `POST {url}/chat/completions`."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import httpx

from lorewell.errors import (
    LorewellError,
    UpstreamError,
    UpstreamInvalidError,
    UpstreamRefusedError,
    UpstreamTimeoutError,
    UpstreamUnavailableError,
)
from lorewell.model.parse import parse_json
from lorewell.outbound import Backoff, may_pass, parse_base_url, retry_after_s
from lorewell.turn import PreparedTurn
from lorewell.upstreams.events import EventReader
from lorewell.upstreams.options import Attempt, UpstreamOptions
from lorewell.upstreams.replies import ChatDelta, ChatReply, read_delta, read_reply

Result = TypeVar("Result")

log = logging.getLogger("lorewell.upstreams")

_OK: Final = 200
_MAX_ERROR_BYTES: Final = 64 * 1024
_EXAMPLE_URL: Final = "http://127.0.0.1:11434/v1"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DONE: Final = b"[DONE]"


class _Failed(NamedTuple):
    """An attempt that failed.

    Attributes:
        may_pass: whether another attempt may succeed.
        pause_s: how long the server asks to wait.
    """

    error: UpstreamError
    why: str
    may_pass: bool = True
    pause_s: float = 0.0
    status: int | None = None


class OpenAiChat:
    """A model at a server. Its key, its password and what was said are in no error and no log."""

    def __init__(self, options: UpstreamOptions) -> None:
        """Connect to nothing yet.

        Raises:
            ValidationFailedError: the URL or the key can't be used.
        """
        self.model = options.model
        self._options = options
        base = parse_base_url(options.url, parameter="url", example=_EXAMPLE_URL)
        self._url = base.join("/chat/completions")
        self._backoff = Backoff(first_s=options.first_pause_s)
        # Unpacked, an answer could be a thousand times as large as what was read of it.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        authorization = base.authorization(options.api_key, parameter="api_key")
        if authorization is not None:
            headers["Authorization"] = authorization
        # No time-outs of its own: they are counted anew for each piece of an answer.
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None),
            trust_env=base.trust_env,
        )

    async def __call__(self, prepared: PreparedTurn) -> ChatReply:
        """Return the reply to a turn, so that `Turn.run` can ask this model."""
        return await self.complete(prepared.messages, tools=prepared.tools)

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> ChatReply:
        """Return the reply to the messages, which go out as they are.

        Raises:
            UpstreamUnavailableError: the last attempt failed, or the time is over.
            UpstreamRefusedError: the server refuses the request.
            UpstreamInvalidError: the reply can't be understood, or is too large.
        """
        body = self._body(messages, tools)

        async def whole() -> ChatReply:
            async with aclosing(self._pieces(body)) as pieces:
                return read_reply(b"".join([piece async for piece in pieces]))

        return await self._insist(lambda: self._timed(whole()))

    async def stream(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> AsyncGenerator[ChatDelta]:
        """Yield the reply in pieces, as they come. Nothing is tried again once one has come.

        Raises:
            UpstreamError: as `complete`; also in the middle of a reply.
        """
        body = self._body(messages, tools, stream=True)
        opened: list[AsyncGenerator[bytes]] = []

        async def first() -> bytes | None:
            events = self._events(body)
            event = await self._timed(anext(events, None))
            opened.append(events)
            return event

        event = await self._insist(first)
        is_whole = False
        async with aclosing(opened[-1]) as events:
            while event is not None and event != _DONE:
                delta = _delta(event)
                is_whole = is_whole or delta.finish_reason is not None
                yield delta
                try:
                    event = await self._timed(anext(events, None))
                except _AttemptError as failed:
                    raise failed.failed.error from failed
        if event is None and not is_whole:  # not every server sends the mark of the end
            raise UpstreamUnavailableError("The model server broke off.")

    async def close(self) -> None:
        """Let go of all connections."""
        await self._http.aclose()

    def _body(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        stream: bool = False,
    ) -> bytes:
        document: dict[str, Any] = {
            **self._options.parameters,
            "model": self.model,
            "messages": list(map(dict, messages)),
            "stream": stream,
        }
        if tools:
            document["tools"] = list(map(dict, tools))
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.encode(errors="replace")

    async def _insist(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Return what is asked for, after as many attempts as it may take."""
        number = 0
        while True:
            number += 1
            begin = perf_counter()
            try:
                result = await ask()
            except _AttemptError as error:
                failed = error.failed
            except UpstreamInvalidError as error:
                failed = _Failed(error, "replied nothing that can be used", may_pass=False)
            else:
                self._tell(number, begin)
                return result
            self._tell(number, begin, failed)
            if not failed.may_pass or number > self._options.retries:
                raise failed.error
            await asyncio.sleep(self._backoff.pause_s(number, failed.pause_s))

    def _tell(self, number: int, begin: float, failed: _Failed | None = None) -> None:
        if self._options.on_attempt is None:
            return
        attempt = Attempt(
            number=number,
            status=_OK if failed is None else failed.status,
            failure=None if failed is None else failed.why,
            duration_ms=(perf_counter() - begin) * 1000,
        )
        try:
            self._options.on_attempt(attempt)
        except Exception:
            log.exception("on_attempt failed")

    async def _timed(self, work: Awaitable[Result]) -> Result:
        timeout_s = self._options.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError:
            # It may be at work on the reply, and asking again would cost as much once more.
            why = f"did not answer within {timeout_s:g} s"
            error = UpstreamTimeoutError(f"The model server {why}.")
            raise _AttemptError(_Failed(error, why, may_pass=False)) from None

    async def _events(self, body: bytes) -> AsyncGenerator[bytes]:
        reader = EventReader()
        async with aclosing(self._pieces(body)) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    yield event

    async def _pieces(self, body: bytes) -> AsyncGenerator[bytes]:
        """Yield the bytes of a successful answer.

        Raises:
            _AttemptError: it is none, or it broke off.
            UpstreamInvalidError: it is too large.
        """
        received = 0
        try:
            async with self._http.stream("POST", self._url, content=body) as response:
                if not response.is_success:
                    raise _AttemptError(await self._refused(response))
                async for piece in response.aiter_raw():
                    received += len(piece)
                    if received > self._options.max_reply_bytes:
                        limit = self._options.max_reply_bytes
                        message = f"The model server's reply is larger than {limit} bytes."
                        raise UpstreamInvalidError(message)
                    yield piece
        except httpx.ConnectError:
            raise _AttemptError(_unavailable("can't be reached")) from None
        except httpx.RequestError:  # its text and its request hold what was said
            raise _AttemptError(_unavailable("broke off")) from None

    async def _refused(self, response: httpx.Response) -> _Failed:
        status = response.status_code
        why = f"answered {status}"
        if may_pass(status):
            failed = _unavailable(why, status=status)
            return failed._replace(pause_s=retry_after_s(response.headers))
        error = UpstreamRefusedError(f"The model server {why}.", status=status)
        word = await self._error_word(response)
        if word is not None:
            error.details["reason"] = word
        return _Failed(error, why, may_pass=False, status=status)

    async def _error_word(self, response: httpx.Response) -> str | None:
        """Return the server's word for what is wrong; its sentences may quote keys and texts."""
        received = bytearray()
        async for piece in response.aiter_raw():
            received += piece
            if len(received) > _MAX_ERROR_BYTES:
                return None
        try:
            error = parse_json(bytes(received)).get("error")
            word = str(error.get("code") or error.get("type"))
        except (LorewellError, AttributeError):
            return None
        key = self._options.api_key
        is_clean = _WORD.fullmatch(word) and not (key and (key in word or word in key))
        return word if is_clean else None


class _AttemptError(Exception):
    """An attempt failed, and perhaps another one does not."""

    def __init__(self, failed: _Failed) -> None:
        super().__init__(failed.why)
        self.failed = failed


def _unavailable(why: str, *, may_pass: bool = True, status: int | None = None) -> _Failed:
    error = UpstreamUnavailableError(f"The model server {why}.")
    if status is not None:
        error.details["status"] = status
    return _Failed(error, why, may_pass=may_pass, status=status)


def _delta(event: bytes) -> ChatDelta:
    try:
        return read_delta(event)
    except UpstreamInvalidError:
        # Some servers tell of an error in the middle of a stream that began well.
        if b'"error"' in event:
            message = "The model server broke off with an error."
            raise UpstreamUnavailableError(message) from None
        raise
