"""An embedding server on this machine that speaks OpenAI's protocol and can be made to misbehave.

    def test_something(embedding_server: EmbeddingServer) -> None:  # a fixture, see below
        embedding_server.fail(429, times=1, retry_after="0")
        ...  # something that asks embedding_server.url
        assert embedding_server.calls == 2

Misdeeds wait in a row: each is done as often as it says, then the next one, then none. One without
`times` is done until `behave`.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from embedding import DIMENSIONS, QUIET, embed

Items = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Misdeed:
    """What goes wrong with a call. What is not said goes right.

    Attributes:
        status: of the answer.
        headers: of the answer, beside its type and length.
        hang_s: seconds before the answer.
        drop: end the connection without an answer.
        body: sent instead of the vectors.
        change: what becomes of the answer's `data`, a list of `{"index": …, "embedding": […]}`.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    drop: bool = False
    body: bytes | None = None
    change: Callable[[Items], Items] | None = None


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class EmbeddingServer:
    """Answers `POST {url}/embeddings` with vectors of `embedding.embed`, in a thread of its own.

    Attributes:
        url: the base URL, which ends in /v1.
        dimensions: numbers of a vector; set it to be another model.
        requests: all requests in the order they came, also those that were answered badly.
    """

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self.dimensions = dimensions
        self.requests: list[Received] = []
        self._lock = threading.Lock()
        self._misdeeds: deque[tuple[Misdeed, int | None]] = deque()
        self._closing = threading.Event()
        self._running = 0
        self._most = 0
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; its port then refuses connections. Hanging calls end at once."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def closing(self) -> bool:
        """Whether nothing is answered any more."""
        return self._closing.is_set()

    @property
    def calls(self) -> int:
        """How many requests came."""
        with self._lock:
            return len(self.requests)

    @property
    def texts(self) -> list[str]:
        """All texts of all requests, in the order they came."""
        with self._lock:
            return [text for each in self.requests for text in _inputs(each.body)]

    @property
    def most_at_once(self) -> int:
        """How many requests ran at the same time at most."""
        with self._lock:
            return self._most

    def forget(self) -> None:
        """Count from zero again."""
        with self._lock:
            self.requests.clear()
            self._most = self._running

    # What goes wrong from now on
    def misbehave(self, misdeed: Misdeed, *, times: int | None = None) -> None:
        """Do something wrong with the next calls, `times` of them or all."""
        with self._lock:
            self._misdeeds.append((misdeed, times))

    def behave(self) -> None:
        """Do everything right again."""
        with self._lock:
            self._misdeeds.clear()

    def fail(
        self, status: int, *, times: int | None = None, retry_after: str | None = None
    ) -> None:
        """Answer with a status, and a body that quotes the request, as some servers do."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        self.misbehave(Misdeed(status=status, headers=headers), times=times)

    def fail_after(self, calls: int, status: int, *, times: int | None = None) -> None:
        """Answer so many calls well, and the next ones with a status."""
        self.misbehave(Misdeed(), times=calls)
        self.fail(status, times=times)

    def hang(self, seconds: float, *, times: int | None = None) -> None:
        """Answer only after so many seconds."""
        self.misbehave(Misdeed(hang_s=seconds), times=times)

    def drop(self, *, times: int | None = None) -> None:
        """End connections without an answer."""
        self.misbehave(Misdeed(drop=True), times=times)

    def answer(self, body: bytes, *, times: int | None = None) -> None:
        """Answer with this body."""
        self.misbehave(Misdeed(body=body), times=times)

    def change(self, change: Callable[[Items], Items], *, times: int | None = None) -> None:
        """Answer with what becomes of the items, e.g. `lambda items: items[:-1]`."""
        self.misbehave(Misdeed(change=change), times=times)

    # What the handler asks
    def begin(self, received: Received) -> Misdeed:
        """Note a request; return what goes wrong with it.

        Those for the texts that each index is measured with are not noted, and go right.
        """
        with self._lock:
            if QUIET.issuperset(_inputs(received.body)):
                self._running += 1
                return Misdeed()
            self.requests.append(received)
            self._running += 1
            self._most = max(self._most, self._running)
            if not self._misdeeds:
                return Misdeed()
            misdeed, times = self._misdeeds.popleft()
            if times is None or times > 1:
                self._misdeeds.appendleft((misdeed, None if times is None else times - 1))
            return misdeed

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than the server lives."""
        if seconds:
            self._closing.wait(seconds)

    def end(self) -> None:
        """Note that a request is about to be answered."""
        with self._lock:
            self._running -= 1


class _Server(ThreadingHTTPServer):
    owner: EmbeddingServer
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that did not wait."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        owner = self.server.owner
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(path=self.path, headers=headers, body=json.loads(raw))
        misdeed = owner.begin(received)
        try:
            owner.wait(misdeed.hang_s)
        finally:
            owner.end()
        if misdeed.drop or owner.closing:  # a kept connection does not outlive the server
            self.close_connection = True
            return
        self._send(misdeed, self._body(received, misdeed, raw))

    def _body(self, received: Received, misdeed: Misdeed, raw: bytes) -> bytes:
        if misdeed.body is not None:
            return misdeed.body
        if misdeed.status != 200:
            return raw
        items: Items = [
            {
                "object": "embedding",
                "index": index,
                "embedding": embed(text, self.server.owner.dimensions).tolist(),
            }
            for index, text in enumerate(_inputs(received.body))
        ]
        if misdeed.change is not None:
            items = misdeed.change(items)
        answer = {"object": "list", "data": items, "model": received.body.get("model")}
        return json.dumps(answer).encode()

    def _send(self, misdeed: Misdeed, body: bytes) -> None:
        self.send_response(misdeed.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in misdeed.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's
        """Write nothing."""


def _inputs(body: Mapping[str, Any]) -> list[str]:
    given = body["input"]
    return [given] if isinstance(given, str) else list(given)


@contextmanager
def embedding_server(dimensions: int = DIMENSIONS) -> Iterator[EmbeddingServer]:
    """Give a server that ends with the block."""
    server = EmbeddingServer(dimensions)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(name="embedding_server")
def embedding_server_fixture() -> Iterator[EmbeddingServer]:
    """Give a server of the test's own; import this name to use it."""
    with embedding_server() as server:
        yield server
