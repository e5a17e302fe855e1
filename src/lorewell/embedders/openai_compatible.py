"""Vectors from any server that speaks OpenAI's protocol: `POST {url}/embeddings`."""

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

_URL_SETTING = "LOREWELL_EMBEDDING_URL"
_KEY_SETTING = "LOREWELL_EMBEDDING_API_KEY"
_EXAMPLE_URL = "http://127.0.0.1:8080/v1"
# A number in JSON takes some 20 bytes; the rest leaves room for blanks and for what else is told.
_NUMBER_BYTES = 32
_SLACK_BYTES = 64 * 1024


class _Failure(NamedTuple):
    """An attempt that failed.

    Attributes:
        why: what "The embedding server" did, as the end of that sentence.
        may_pass: whether another attempt may succeed.
        asked_pause_s: how long the server asks to wait.
    """

    why: str
    may_pass: bool = True
    asked_pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Link:
    """What belongs to one event loop.

    Queries have places of their own, so that no turn waits behind the build of an index.
    """

    http: httpx.AsyncClient
    texts: asyncio.Semaphore
    queries: asyncio.Semaphore


class OpenAiEmbedder:
    """An `Embedder` that asks a server. Its key, password and texts are in no error and no log."""

    def __init__(self, options: EmbedderOptions) -> None:
        """Connect to nothing yet.

        Raises:
            ValidationFailedError: the URL can't be read.
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
        # Unpacked, an answer could be a thousand times as large as what was read of it.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        authorization = base.authorization(options.api_key, parameter=_KEY_SETTING)
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._links: dict[asyncio.AbstractEventLoop, _Link] = {}

    async def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimensions) vectors of texts that are to be found, trying again if need be.

        Raises:
            EmbeddingUnavailableError: the last attempt failed, or there is no use in another.
        """
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        prefixed = [self._options.text_prefix + text for text in texts]
        return await self._insist(
            prefixed, self._link().texts, attempts=self._options.retries + 1, until=math.inf
        )

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the (dimensions) vector of what is looked for, within the time of a query.

        Raises:
            EmbeddingUnavailableError: that time did not suffice, or there is no use in trying.
        """
        timeout_s = self._options.query_timeout_s
        until = asyncio.get_running_loop().time() + timeout_s
        prefixed = [self._options.query_prefix + text]
        try:
            async with asyncio.timeout_at(until):
                rows = await self._insist(
                    prefixed, self._link().queries, attempts=math.inf, until=until
                )
        except TimeoutError:
            raise _unavailable(_Failure(_no_answer(timeout_s))) from None
        row: NDArray[np.float32] = rows[0]
        return row

    async def prepare(self) -> None:
        """Do nothing: a server may want money for each call."""

    async def close(self) -> None:
        """Let go of the connections of this event loop."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None:
            await link.http.aclose()

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            for ended in [each for each in self._links if each.is_closed()]:
                del self._links[ended]
            # No time-outs of its own: they are counted anew for each piece of an answer.
            forever = httpx.Timeout(None)
            http = httpx.AsyncClient(
                headers=self._headers, timeout=forever, trust_env=self._trust_env
            )
            limit = self.concurrency
            link = _Link(http, asyncio.Semaphore(limit), asyncio.Semaphore(limit))
            self._links[loop] = link
        return link

    async def _insist(
        self, texts: Sequence[str], places: asyncio.Semaphore, *, attempts: float, until: float
    ) -> NDArray[np.float32]:
        """Return the vectors after as many attempts as it takes.

        No attempt begins after `until`, which is a time of the event loop.
        """
        body = self._body(texts)
        made = 0
        while True:
            async with places:
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
        """Return what the server answers, or how it failed."""
        timeout_s = self._options.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(body, count)
        except TimeoutError:
            return _Failure(_no_answer(timeout_s))
        except httpx.ConnectError:
            return _Failure("can't be reached")
        except httpx.RequestError:
            return _Failure("broke off")

    async def _exchange(self, body: bytes, count: int) -> bytes | _Failure:
        most_bytes = count * self.dimensions * _NUMBER_BYTES + _SLACK_BYTES
        received = bytearray()
        async with self._link().http.stream("POST", self._url, content=body) as response:
            status = response.status_code
            if not response.is_success:
                asked_s = retry_after_s(response.headers)
                return _Failure(f"answered {status}", may_pass(status), asked_s)
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > most_bytes:
                    why = f"answered more than {count * self.dimensions} numbers can take"
                    return _Failure(why, may_pass=False)
        return bytes(received)

    async def _read(self, answer: bytes, count: int) -> NDArray[np.float32]:
        if count == 1:
            return read_vectors(answer, count=1, dimensions=self.dimensions)
        # A large answer takes tens of milliseconds to read, in which a turn may be waiting.
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
