"""Turns against a real service, and against servers that are down, slow or something else."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import httpx
import pytest

from chat_upstream import ChatUpstream, Turn as Answer, chat_upstream_fixture  # noqa: F401
from lorewell.app.turns import TenantLore
from lorewell.client import connect
from lorewell.errors import UpstreamUnavailableError
from lorewell.host import DraftMessage
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn import LoreSource, PreparedTurn, TurnError, TurnHost, TurnInput
from lorewell.upstreams import OpenAiChat, UpstreamOptions
from process import Server, free_port, running
from service import Api

Result = TypeVar("Result")

BELL = {"id": "bell", "keys": ["钟", "bell"], "content": "LORE 钟归沈七管。"}
LAW = {"id": "law", "content": "LORE 入夜不点灯。", "required": True}
BOOK = {"name": "渡口", "entries": [BELL, LAW]}
WORLD = b'{"entries": {"0": {"uid": 0, "key": ["bell"], "content": "LORE st.", "position": 0}}}'


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("service")
    with running(folder / "log", database_url=f"sqlite:///{folder / 'l.db'}") as server:
        yield server


def store(ask: Callable[..., httpx.Response], prompt_id: str, book: Any = BOOK) -> str:
    """Store a book, bind it to a prompt, and return its id."""
    made = ask("POST", "/v1/books", json=book)
    assert made.status_code == 201, made.text
    book_id = str(made.json()["books"][0]["book_id"])
    bind(ask, prompt_id, {"book_id": book_id})
    return book_id


def bind(ask: Callable[..., httpx.Response], prompt_id: str, *bindings: Any) -> None:
    body = {"bindings": bindings}
    params = {"prompt_id": prompt_id}
    assert ask("PUT", "/v1/prompt-bindings", params=params, json=body).status_code == 200


def publish(ask: Callable[..., httpx.Response], book_id: str, expected: int) -> None:
    new = {"name": "渡口", "entries": [{**BELL, "content": f"LORE {expected + 1}"}]}
    body = {**new, "expected_revision": expected}
    assert ask("POST", f"/v1/books/{book_id}/revisions", json=body).status_code == 201


def config(url: str, **members: Any) -> WorldbookConfig:
    return WorldbookConfig(tenant_id="demo", service_url=url, **members)


def turn_input(
    prompt_id: str, request_id: str = "r1", *, said: str = "I ring the bell."
) -> TurnInput:
    draft = [DraftMessage(kind="input", message={"role": "user", "content": said})]
    return TurnInput(
        request_id=request_id,
        user_id="用户",
        conversation_id=f"c-{prompt_id}",
        prompt_id=prompt_id,
        draft=draft,
    )


def on_service(
    config: WorldbookConfig,
    work: Callable[[TurnHost], Awaitable[Result]],
    transport: httpx.AsyncBaseTransport | None = None,
) -> Result:
    """Return what some work with turns over HTTP gives."""

    async def in_loop() -> Result:
        async with connect(config, transport=transport) as lore:
            port: LoreSource = lore
            return await work(TurnHost(config, port))

    return asyncio.run(in_loop())


def failure(config: WorldbookConfig, prompt_id: str = "any") -> TurnError:
    async def fail(host: TurnHost) -> TurnError:
        with pytest.raises(TurnError) as failed:
            await host.begin(turn_input(prompt_id)).prepare()
        return failed.value

    return on_service(config, fail)


def test_13_and_14_publishing_counts_from_the_next_turn_unless_pinned(server: Server) -> None:
    ask = server.client.request
    moving, pinned = store(ask, "moving"), store(ask, "pinned")
    bind(ask, "pinned", {"book_id": pinned, "revision": 1})

    async def turns(host: TurnHost) -> list[PreparedTurn]:
        async with host.begin(turn_input("moving")) as turn:
            first = await turn.prepare()
            for book_id in (moving, pinned):
                await asyncio.to_thread(publish, ask, book_id, 1)
            retry = await turn.prepare()
        return [
            first,
            retry,
            await host.begin(turn_input("moving", "r2")).prepare(),
            await host.begin(turn_input("pinned", "r3")).prepare(),
        ]

    first, retry, following, kept = on_service(config(server.url), turns)
    assert first.messages == retry.messages
    assert "钟归沈七管" in str(retry.messages)
    assert "LORE 2" in str(following.messages)
    assert "钟归沈七管" in str(kept.messages)
    assert first.trace.members()["selection"]["degraded"] == ["vector_disabled"]


def test_04_only_the_fields_of_the_contract_are_sent(server: Server) -> None:
    book_id = store(server.client.request, "fields")
    sent: list[httpx.Request] = []

    class Watched(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            sent.append(request)
            return await super().handle_async_request(request)

    async def prepare(host: TurnHost) -> PreparedTurn:
        return await host.begin(turn_input("fields")).prepare()

    on_service(config(server.url, api_key="lw_key"), prepare, Watched())
    assert [each.url.path for each in sent] == ["/v1/prompt-bindings/resolve", "/v1/context/select"]
    assert json.loads(sent[1].content) == {
        "books": [{"book_id": book_id, "revision": 1}],
        "query": "I ring the bell.",
        "history": [],
        "state": {},
        "strategy": "hybrid",
        "token_budget": 2400,
        "recall_floor": "auto",
        "seed": "r1",
        "template_vars": {},
        "placement_capabilities": {
            "positions": ["before_character", "after_character", "at_depth"],
            "outlets": [],
        },
    }


def test_35_the_services_code_goes_up(server: Server) -> None:
    store(server.client.request, "tight")
    error = failure(config(server.url, token_budget=1), "tight")
    assert (error.code, error.stage) == ("budget_exceeded", "select")
    assert error.details["entry_id"] == "law"
    assert error.cause.request_id


def test_sillytavern_books_keep_timed_state_at_the_service(server: Server) -> None:
    ask = server.client.request
    files = {"files": ("st.json", WORLD, "application/json")}
    made = ask("POST", "/v1/imports/files", files=files)
    assert made.status_code == 201, made.text
    bind(ask, "st", {"book_id": made.json()["books"][0]["book_id"]})

    async def turns(host: TurnHost) -> PreparedTurn:
        return await host.begin(turn_input("st")).prepare()

    prepared = on_service(config(server.url), turns)
    assert "LORE st." in str(prepared.messages)
    assert prepared.lore.policy == "sillytavern"
    kept = ask("GET", "/v1/conversations").json()["conversations"]
    assert [each["conversation_id"] for each in kept] == ["demo:用户:c-st"]


@contextmanager
def listening(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """Give the address of a server that does this to every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                handle(connection)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)


def test_37_a_service_that_is_down_is_said() -> None:
    error = failure(config(f"http://127.0.0.1:{free_port()}"))
    assert (error.code, error.stage) == ("worldbook.service_unavailable", "resolve")


def test_37_a_slow_service_is_given_up() -> None:
    held: list[socket.socket] = []
    with listening(held.append) as url:
        error = failure(config(url, timeout_ms=200))
    assert (error.code, error.stage) == ("worldbook.service_unavailable", "resolve")
    assert len(held) == 1
    for connection in held:
        connection.close()


def test_37_a_connection_that_breaks_is_tried_once_more() -> None:
    seen: list[socket.socket] = []

    def end(connection: socket.socket) -> None:
        seen.append(connection)
        with closing(connection):
            connection.recv(65_536)

    with listening(end) as url:
        error = failure(config(url))
    assert (error.code, error.stage) == ("worldbook.service_unavailable", "resolve")
    assert len(seen) == 2


@pytest.mark.parametrize("status", ["502 Bad Gateway", "404 Not Found", "200 OK"])
def test_37_an_answer_that_is_no_problem_body_is_said(status: str) -> None:
    def answer(connection: socket.socket) -> None:
        with closing(connection):
            connection.recv(65_536)
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n"
            connection.sendall(head.encode() + b"<html>")

    with listening(answer) as url:
        error = failure(config(url))
    assert (error.code, error.stage) == ("worldbook.service_unavailable", "resolve")


def test_a_model_server_that_fails_costs_no_further_selection(
    server: Server, chat_upstream: ChatUpstream
) -> None:
    store(server.client.request, "retries")
    chat_upstream.fail(500, times=1)
    chat_upstream.do(Answer(content=""), times=1)
    chat_upstream.reply("It rings.", times=1)
    before = _selections(server)

    async def run(host: TurnHost) -> str:
        model = OpenAiChat(UpstreamOptions(url=chat_upstream.url, model="m", retries=0))
        try:
            async with host.begin(turn_input("retries")) as turn:
                return (await turn.run(model)).content
        finally:
            await model.close()

    assert on_service(config(server.url), run) == "It rings."
    asked = [each.body["messages"] for each in chat_upstream.requests]
    assert len(asked) == 3
    assert asked[0] == asked[1] == asked[2]
    assert "LORE" in str(asked[0])
    assert _selections(server) == before + 1


def _selections(server: Server) -> float:
    text = server.client.get("/metrics").text
    lines = [line for line in text.splitlines() if "context/select" in line and "_count" in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_30_and_37_the_model_server_is_not_asked_when_the_turn_fails(
    server: Server, chat_upstream: ChatUpstream
) -> None:
    store(server.client.request, "overflow")
    codes = []

    async def run(host: TurnHost) -> None:
        model = OpenAiChat(UpstreamOptions(url=chat_upstream.url, model="m"))
        with pytest.raises(TurnError) as failed:
            await host.begin(turn_input("overflow")).run(model)
        codes.append(failed.value.code)
        await model.close()

    on_service(config(server.url, context_window=5), run)
    on_service(config(f"http://127.0.0.1:{free_port()}"), run)
    assert codes == ["agent.context_overflow", "worldbook.service_unavailable"]
    assert chat_upstream.calls == 0


def test_a_caller_that_goes_away_leaves_the_turn_usable(
    server: Server, chat_upstream: ChatUpstream
) -> None:
    store(server.client.request, "gone")
    chat_upstream.hang(60, times=1)
    chat_upstream.reply("Back.")

    async def run(host: TurnHost) -> str:
        model = OpenAiChat(UpstreamOptions(url=chat_upstream.url, model="m", retries=0))
        try:
            async with host.begin(turn_input("gone")) as turn:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(turn.run(model), 2)
                return (await turn.run(model)).content
        finally:
            await model.close()

    assert on_service(config(server.url), run) == "Back."


def test_a_slow_model_server_is_an_error_and_the_turn_can_go_on(
    server: Server, chat_upstream: ChatUpstream
) -> None:
    store(server.client.request, "slow")
    chat_upstream.hang(60)

    async def run(host: TurnHost) -> None:
        options = UpstreamOptions(url=chat_upstream.url, model="m", timeout_s=0.2)
        model = OpenAiChat(options)
        with pytest.raises(UpstreamUnavailableError):
            await host.begin(turn_input("slow")).run(model, attempts=2)
        await model.close()

    on_service(config(server.url), run)
    assert chat_upstream.calls == 2


def test_in_the_service_no_network_is_needed(api: Api) -> None:
    book_id = store(api, "inside")
    services = api.app.state.shared.services
    host = TurnHost(WorldbookConfig(tenant_id="demo"), TenantLore(services, "demo"))

    async def prepare(request_id: str) -> PreparedTurn:
        return await host.begin(turn_input("inside", request_id)).prepare()

    assert "钟归沈七管" in str(api.run(prepare("r1")).messages)
    publish(api, book_id, 1)
    assert "LORE 2" in str(api.run(prepare("r2")).messages)
    files = {"files": ("st.json", WORLD, "application/json")}
    made = api("POST", "/v1/imports/files", files=files).json()
    bind(api, "inside", {"book_id": made["books"][0]["book_id"]})
    assert "LORE st." in str(api.run(prepare("r3")).messages)
