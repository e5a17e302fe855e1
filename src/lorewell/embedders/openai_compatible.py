"""Vectors of any server that speaks OpenAI's protocol: `POST {url}/embeddings`."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from lorewell.embedders.options import EmbedderOptions
from lorewell.embedders.vectors import read_vectors
from lorewell.errors import EmbeddingUnavailableError
from lorewell.outbound import Backoff, may_pass, parse_base_url, retry_after_s
from lorewell.waiting import begin_to_wait

_URL_SETTING = "LOREWELL_EMBEDDING_URL"
_KEY_SETTING = "LOREWELL_EMBEDDING_API_KEY"
_EXAMPLE_URL = "http://127.0.0.1:8080/v1"
# A number takes some 20 bytes in JSON; the rest is room for blanks and other members.
_NUMBER_BYTES = 32
_SLACK_BYTES = 64 * 1024


class _Failure(NamedTuple):
    """An attempt that failed.

    Attributes:
        why: the end of a sentence that begins "The embedding server …".
        may_pass: whether another attempt may succeed.
        asked_pause_s: the seconds that the server asks to wait.
    """

    why: str
    may_pass: bool = True
    asked_pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Link:
    """The connections of one event loop.

    Queries have slots of their own, so that no turn waits behind the build of an index.
    """

    http: httpx.AsyncClient
    texts: asyncio.Semaphore
    queries: asyncio.Semaphore


class OpenAiEmbedder:
    """An `Embedder` that calls a server. No error and no log holds its key, password or texts."""

    def __init__(self, options: EmbedderOptions) -> None:
        """Create an embedder without connecting.

        Raises:
            ValidationFailedError: the URL or the key is invalid.
        """
        self.version = _version(options)
        self.dimensions = options.dimensions
        self.batch_size = options.batch_size
        self.concurrency = options.concurrency
        self._options = options
        base = parse_base_url(options.url, parameter=_URL_SETTING, example=_EXAMPLE_URL)
        self._url = base.join("/embeddings")
        self._trust_env = base.trust_env
        self._backoff = Backoff(first_s=options.first_pause_s)
        # A compressed answer could become a thousand times as large as what was counted.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        authorization = base.authorization(options.api_key, parameter=_KEY_SETTING)
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._links: dict[asyncio.AbstractEventLoop, _Link] = {}

    async def embed_texts(
        self, texts: Sequence[str], *, as_queries: bool = False
    ) -> NDArray[np.float32]:
        """Return (n, dimensions) vectors of indexed texts, with retries.

        With `as_queries`, the texts get the prefix of queries.

        Raises:
            EmbeddingUnavailableError: the last attempt failed, or another one can't succeed.
        """
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        prefix = self._options.query_prefix if as_queries else self._options.text_prefix
        prefixed = [prefix + text for text in texts]
        return await self._with_retries(
            prefixed, self._link().texts, attempts=self._options.retries + 1, until=math.inf
        )

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the (dimensions) vector of a query, within the time of a query.

        Raises:
            EmbeddingUnavailableError: the time is over, or another attempt can't succeed.
        """
        timeout_s = self._options.query_timeout_s
        until = asyncio.get_running_loop().time() + timeout_s
        prefixed = [self._options.query_prefix + text]
        try:
            async with asyncio.timeout_at(until):
                rows = await self._with_retries(
                    prefixed, self._link().queries, attempts=math.inf, until=until
                )
        except TimeoutError:
            raise _unavailable(_Failure(_no_answer(timeout_s))) from None
        row: NDArray[np.float32] = rows[0]
        return row

    async def prepare(self) -> None:
        """Do nothing: a server may charge for each call."""

    async def close(self) -> None:
        """Close the connections of this event loop."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None:
            await link.http.aclose()

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            for ended in [each for each in self._links if each.is_closed()]:
                del self._links[ended]
            # httpx's timeouts start again with each piece; `_attempt` has one of its own.
            no_timeout = httpx.Timeout(None)
            http = httpx.AsyncClient(
                headers=self._headers, timeout=no_timeout, trust_env=self._trust_env
            )
            limit = self.concurrency
            link = _Link(http, asyncio.Semaphore(limit), asyncio.Semaphore(limit))
            self._links[loop] = link
        return link

    async def _with_retries(
        self, texts: Sequence[str], slots: asyncio.Semaphore, *, attempts: float, until: float
    ) -> NDArray[np.float32]:
        """Return the vectors, after as many attempts as allowed.

        No attempt begins after `until`, a time of the event loop.
        """
        body = self._body(texts)
        made = 0
        while True:
            async with slots:
                answer = await self._attempt(body, len(texts))
            if isinstance(answer, bytes):
                return await self._read(answer, len(texts))
            made += 1
            pause_s = self._backoff.pause_s(made, answer.asked_pause_s)
            would_begin = asyncio.get_running_loop().time() + pause_s
            if not answer.may_pass or made >= attempts or would_begin >= until:
                raise _unavailable(answer)
            await asyncio.sleep(pause_s)

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, object] = {
            "model": self._options.model,
            "input": texts,
            "encoding_format": "float",
        }
        if self._options.send_dimensions:
            body["dimensions"] = self.dimensions
        return orjson.dumps(body)

    async def _attempt(self, body: bytes, count: int) -> bytes | _Failure:
        """Return the server's answer, or the failure."""
        timeout_s = self._options.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(body, count)
        except TimeoutError:
            return _Failure(_no_answer(timeout_s))
        except httpx.ConnectError:
            return _Failure("is unreachable")
        except httpx.RequestError:
            return _Failure("closed the connection early")

    async def _exchange(self, body: bytes, count: int) -> bytes | _Failure:
        most_bytes = count * self.dimensions * _NUMBER_BYTES + _SLACK_BYTES
        received = bytearray()
        begin_to_wait()
        async with self._link().http.stream("POST", self._url, content=body) as response:
            status = response.status_code
            if not response.is_success:
                asked_s = retry_after_s(response.headers)
                return _Failure(f"answered {status}", may_pass(status), asked_s)
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > most_bytes:
                    why = f"sent more bytes than {count * self.dimensions} numbers need"
                    return _Failure(why, may_pass=False)
        return bytes(received)

    async def _read(self, answer: bytes, count: int) -> NDArray[np.float32]:
        if count == 1:
            return read_vectors(answer, count=1, dimensions=self.dimensions)
        # Parsing a large answer takes tens of milliseconds, for which a turn would wait.
        return await asyncio.to_thread(
            read_vectors, answer, count=count, dimensions=self.dimensions
        )


def _version(options: EmbedderOptions) -> str:
    version = f"openai/{options.model}/{options.dimensions}"
    prefixes = orjson.dumps([options.query_prefix, options.text_prefix])
    if options.query_prefix or options.text_prefix:
        version += f"/{hashlib.sha256(prefixes).hexdigest()[:8]}"
    return version


def _no_answer(timeout_s: float) -> str:
    return f"did not answer within {timeout_s:g} s"


def _unavailable(failure: _Failure) -> EmbeddingUnavailableError:
    return EmbeddingUnavailableError(f"The embedding server {failure.why}.")
