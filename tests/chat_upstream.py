"""A model server on this machine that speaks OpenAI's chat protocol and can be made to misbehave.

    def test_something(chat_upstream: ChatUpstream) -> None:  # a fixture, see below
        chat_upstream.reply("The bell rings.", times=1)
        chat_upstream.fail(503, times=1)
        ...  # something that asks chat_upstream.url
        assert chat_upstream.requests[0].body["messages"][-1]["content"] == "我敲钟。"

Replies and faults wait in a queue: each is repeated as often as it says, then comes the next one.
When the queue is empty, the server repeats the text of the last message. One without `times` lasts
until `behave`. Asked for a stream, it sends the same answer as server-sent events, a word each.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Json = dict[str, Any]
_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """How one call is answered.

    Attributes:
        content: what the model says; None says again what the last message said.
        tool_calls: each `{"name": …, "arguments": …}`, the arguments as JSON text.
        finish_reason: None stands for `stop`, or `tool_calls` where there are any.
        status: of the answer; other than 200 its body is an error object that quotes the request.
        headers: of the answer, beside its type.
        body: sent instead of all that, as it is.
        hang_s: seconds before the first byte.
        drop: end the connection without an answer.
        pause_s: seconds before each event of a stream.
        events: of a stream, how many are sent before it hangs or breaks; None sends all.
        then_hang_s: seconds that a stream says nothing after those.
    """

    content: str | None = None
    tool_calls: Sequence[Mapping[str, str]] = ()
    finish_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    hang_s: float = 0.0
    drop: bool = False
    pause_s: float = 0.0
    events: int | None = None
    then_hang_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json
    raw: bytes


class ChatUpstream:
    """Answers `POST {url}/chat/completions` and `GET {url}/models`, in threads of its own.

    Attributes:
        url: the base URL, which ends in /v1.
        requests: all requests for a completion in the order they came, also those answered badly.
    """

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self._lock = threading.Lock()
        self._turns: deque[tuple[Turn, int | None]] = deque()
        self._closing = threading.Event()
        self._gone = threading.Event()
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
        """How many completions were asked for."""
        with self._lock:
            return len(self.requests)

    def wait_gone(self, timeout_s: float = 5.0) -> bool:
        """Return whether a caller went away in the middle of an answer, waiting for it."""
        return self._gone.wait(timeout_s)

    # How it answers from now on
    def do(self, turn: Turn, *, times: int | None = None) -> None:
        """Answer the next calls like this, `times` of them or all."""
        with self._lock:
            self._turns.append((turn, times))

    def behave(self) -> None:
        """Say again what the last message said, for ever."""
        with self._lock:
            self._turns.clear()

    def reply(self, content: str, *, times: int | None = None) -> None:
        """Say this."""
        self.do(Turn(content=content), times=times)

    def call_tool(self, name: str, arguments: str, *, times: int | None = None) -> None:
        """Call a tool, with arguments as JSON text."""
        call = {"name": name, "arguments": arguments}
        self.do(Turn(content="", tool_calls=[call]), times=times)

    def fail(
        self, status: int, *, times: int | None = None, retry_after: str | None = None
    ) -> None:
        """Answer with a status and an error object that quotes the request, as servers do."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        self.do(Turn(status=status, headers=headers), times=times)

    def hang(self, seconds: float, *, times: int | None = None) -> None:
        """Answer only after so many seconds."""
        self.do(Turn(hang_s=seconds), times=times)

    def drop(self, *, times: int | None = None) -> None:
        """End connections without an answer."""
        self.do(Turn(drop=True), times=times)

    def answer(self, body: bytes, *, times: int | None = None) -> None:
        """Answer with this body."""
        self.do(Turn(body=body), times=times)

    # What the handler asks
    def begin(self, received: Received) -> Turn:
        """Note a request; return how it is answered."""
        with self._lock:
            self.requests.append(received)
            if not self._turns:
                return Turn()
            turn, times = self._turns.popleft()
            if times is None or times > 1:
                self._turns.appendleft((turn, None if times is None else times - 1))
            return turn

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than the server lives."""
        if seconds:
            self._closing.wait(seconds)

    def miss_caller(self) -> None:
        """Note that a caller did not wait for the end of its answer."""
        self._gone.set()


class _Server(ThreadingHTTPServer):
    owner: ChatUpstream
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that did not wait."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "fake", "object": "model"}]}
        self._send(200, {}, json.dumps(models).encode())

    def do_POST(self) -> None:
        owner = self.server.owner
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(
            method=self.command, path=self.path, headers=headers, body=json.loads(raw), raw=raw
        )
        turn = owner.begin(received)
        owner.wait(turn.hang_s)
        if turn.drop or owner.closing:  # a kept connection does not outlive the server
            self.close_connection = True
            return
        try:
            self._answer(turn, received)
        except OSError:
            self.close_connection = True
            owner.miss_caller()

    def _answer(self, turn: Turn, received: Received) -> None:
        if turn.status != 200:
            quoted = received.raw.decode(errors="replace")
            error = {"message": f"no: {quoted}", "type": "server_error", "code": None}
            body = json.dumps({"error": error}).encode() if turn.body is None else turn.body
            self._send(turn.status, turn.headers, body)
        elif received.body.get("stream") and turn.body is None:
            self._stream(turn, received.body)
        else:
            body = json.dumps(completion(turn, received.body), ensure_ascii=False).encode()
            self._send(200, turn.headers, body if turn.body is None else turn.body)

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, turn: Turn, asked: Json) -> None:
        self.send_response(200)
        sent = {"Content-Type": "text/event-stream; charset=utf-8", **turn.headers}
        for name, value in {**sent, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for number, event in enumerate(events(turn, asked)):
            if number == turn.events:
                break
            self.server.owner.wait(turn.pause_s)
            self._chunk(event)
        if turn.events is None:
            self._chunk(b"")
            return
        self.server.owner.wait(turn.then_hang_s)
        self._chunk(b": still here\n\n" if turn.then_hang_s else b": goodbye\n\n")
        self.close_connection = True  # without the last chunk: the answer broke off

    def _chunk(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's
        """Write nothing."""


def completion(turn: Turn, asked: Json) -> Json:
    """Return the answer as one object."""
    message: Json = {"role": "assistant", "content": _content(turn, asked)}
    if turn.tool_calls:
        message["tool_calls"] = _tool_calls(turn)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(turn)}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": _USAGE}


def events(turn: Turn, asked: Json) -> Iterator[bytes]:
    """Yield the answer as server-sent events."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _WORDS.findall(_content(turn, asked))]
    for index, call in enumerate(_tool_calls(turn)):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        opened = {**call, "index": index, "function": {"name": name, "arguments": ""}}
        halves = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
        deltas.append({"tool_calls": [opened]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": half}}]} for half in halves
        ]
    head = _head(asked, "chat.completion.chunk")
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "finish_reason": _finish_reason(turn)}
    yield _event({**head, "choices": [last]})
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _head(asked: Json, kind: str) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked.get("model")}


def _event(document: Json) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def _content(turn: Turn, asked: Json) -> str:
    if turn.content is not None:
        return turn.content
    content = asked["messages"][-1].get("content")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _tool_calls(turn: Turn) -> list[Json]:
    return [
        {"id": f"call_{index}", "type": "function", "function": dict(call)}
        for index, call in enumerate(turn.tool_calls)
    ]


def _finish_reason(turn: Turn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop")


@contextmanager
def chat_upstream() -> Iterator[ChatUpstream]:
    """Give a server that ends with the block."""
    server = ChatUpstream()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(name="chat_upstream")
def chat_upstream_fixture() -> Iterator[ChatUpstream]:
    """Give a server of the test's own; import this name to use it."""
    with chat_upstream() as server:
        yield server
