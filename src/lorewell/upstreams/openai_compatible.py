"""Replies of any server that speaks OpenAI's protocol: `POST {url}/chat/completions`."""

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
from lorewell.waiting import begin_to_wait

Result = TypeVar("Result")

log = logging.getLogger("lorewell.upstreams")

_OK: Final = 200
_MAX_ERROR_BYTES: Final = 64 * 1024
_EXAMPLE_URL: Final = "http://127.0.0.1:11434/v1"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DONE: Final = b"[DONE]"


class _FailedAttempt(NamedTuple):
    """An attempt that failed.

    Attributes:
        why: the end of a sentence that begins "The model server …".
        may_pass: whether another attempt may succeed.
        pause_s: the seconds that the server asks to wait.
    """

    error: UpstreamError
    why: str
    may_pass: bool = True
    pause_s: float = 0.0
    status: int | None = None


class OpenAiChat:
    """A model at a server. No error and no log holds its key, its password or a message."""

    def __init__(self, options: UpstreamOptions) -> None:
        """Create a model without connecting.

        Raises:
            ValidationFailedError: the URL or the key is invalid.
        """
        self.model = options.model
        self._options = options
        base = parse_base_url(options.url, parameter="url", example=_EXAMPLE_URL)
        self._url = base.join("/chat/completions")
        self._backoff = Backoff(first_s=options.first_pause_s)
        # A compressed answer could become a thousand times as large as what was counted.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        authorization = base.authorization(options.api_key, parameter="api_key")
        if authorization is not None:
            headers["Authorization"] = authorization
        # httpx's timeouts start again with each piece of an answer; `_timed` has one of its own.
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None),
            trust_env=base.trust_env,
        )

    async def __call__(self, prepared: PreparedTurn) -> ChatReply:
        """Return the reply to a turn, so that `Turn.run` can call this model."""
        return await self.complete(prepared.messages, tools=prepared.tools)

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> ChatReply:
        """Return the reply to the messages, which are sent unchanged.

        Raises:
            UpstreamUnavailableError: the last attempt failed, or it timed out.
            UpstreamRefusedError: the server refused the request.
            UpstreamInvalidError: the reply is invalid or too large.
        """
        body = self._body(messages, tools)

        async def whole() -> ChatReply:
            async with aclosing(self._pieces(body)) as pieces:
                return read_reply(b"".join([piece async for piece in pieces]))

        return await self._with_retries(lambda: self._timed(whole()))

    async def stream(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> AsyncGenerator[ChatDelta]:
        """Yield the reply in pieces, as they come. There is no retry after the first piece.

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

        event = await self._with_retries(first)
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
        if event is None and not is_whole:  # not every server sends the end mark
            raise UpstreamUnavailableError("The model server closed the connection early.")

    async def close(self) -> None:
        """Close all connections."""
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

    async def _with_retries(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of `ask`, after as many attempts as the options allow."""
        number = 0
        while True:
            number += 1
            begin = perf_counter()
            try:
                result = await ask()
            except _AttemptError as error:
                failed = error.failed
            except UpstreamInvalidError as error:
                failed = _FailedAttempt(error, "returned an unusable reply", may_pass=False)
            else:
                self._report(number, begin)
                return result
            self._report(number, begin, failed)
            if not failed.may_pass or number > self._options.retries:
                raise failed.error
            await asyncio.sleep(self._backoff.pause_s(number, failed.pause_s))

    def _report(self, number: int, begin: float, failed: _FailedAttempt | None = None) -> None:
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
            # The server may still be at work, and another attempt would cost as much again.
            why = f"did not answer within {timeout_s:g} s"
            error = UpstreamTimeoutError(f"The model server {why}.")
            raise _AttemptError(_FailedAttempt(error, why, may_pass=False)) from None

    async def _events(self, body: bytes) -> AsyncGenerator[bytes]:
        reader = EventReader()
        async with aclosing(self._pieces(body)) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    yield event

    async def _pieces(self, body: bytes) -> AsyncGenerator[bytes]:
        """Yield the bytes of a successful answer.

        Raises:
            _AttemptError: the server answered an error, or nothing, or broke off.
            UpstreamInvalidError: the answer is too large.
        """
        received = 0
        try:
            begin_to_wait()
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
            raise _AttemptError(_unavailable("is unreachable")) from None
        except httpx.RequestError:  # its text and its request hold messages
            raise _AttemptError(_unavailable("closed the connection early")) from None

    async def _refused(self, response: httpx.Response) -> _FailedAttempt:
        status = response.status_code
        why = f"answered {status}"
        if may_pass(status):
            failed = _unavailable(why, status=status)
            return failed._replace(pause_s=retry_after_s(response.headers))
        error = UpstreamRefusedError(f"The model server {why}.", status=status)
        word = await self._error_code(response)
        if word is not None:
            error.details["reason"] = word
        return _FailedAttempt(error, why, may_pass=False, status=status)

    async def _error_code(self, response: httpx.Response) -> str | None:
        """Return the server's error code, if it is one word; sentences may quote keys and texts."""
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
    """An attempt failed; `failed` says whether another one may succeed."""

    def __init__(self, failed: _FailedAttempt) -> None:
        super().__init__(failed.why)
        self.failed = failed


def _unavailable(why: str, *, may_pass: bool = True, status: int | None = None) -> _FailedAttempt:
    error = UpstreamUnavailableError(f"The model server {why}.")
    if status is not None:
        error.details["status"] = status
    return _FailedAttempt(error, why, may_pass=may_pass, status=status)


def _delta(event: bytes) -> ChatDelta:
    try:
        return read_delta(event)
    except UpstreamInvalidError:
        # Some servers send an error in the middle of a stream.
        if b'"error"' in event:
            message = "The model server stopped with an error."
            raise UpstreamUnavailableError(message) from None
        raise
