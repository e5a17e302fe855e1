"""The chat socket of SillyTavern_replica: a real server, a real client, a scripted model server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from chat_upstream import ChatUpstream, Turn, chat_upstream
from lorewell.app.access import create_key
from lorewell.app.replica.chat import read_frame
from lorewell.bootstrap import build_services, start, stop
from lorewell.http.websocket import MAX_MESSAGE_BYTES
from lorewell.model import KeyRequest
from lorewell.settings import load_settings
from process import Server, running
from replica_books import conditional, constant, keyed

Frame = dict[str, Any]
QUIET = logging.getLogger("client")
QUIET.setLevel(logging.WARNING)
SECRET = "sk-客户端的钥匙"  # noqa: S105  what a client sends
BOOK = {
    "name": "渡口",
    "entries": [
        constant("rule", position=5, content="只说实话。"),
        keyed("tower", "灯塔", position=4, content="灯塔由哑女看守。"),
        conditional("strong", "tb.力量 > 10", position=0, content="{{char}}认得你。"),
    ],
}
TURN: Frame = {
    "floor": 3,
    "is_user": True,
    "currentChat": "第一夜",
    "options": {},
    "stream": True,
    "currentRole": {"name": "沈七", "description": "摆渡人。", "mes_example": "沈七：上船。"},
    "presetConfig": {"temperature": 1},
    "apiConfig": {"api_url": "http://127.0.0.1:9/v1", "api_key": SECRET},
    "worldBookData": {"globalBooks": [{"id": "none", "name": "没有"}, {"name": "渡口"}]},
    "chatHistory": ["雾来了。", "上船吧。"],
    "dynamicTableData": {"currentValues": {"力量": 15}},
    "mes": "去灯塔看看",
}


@pytest.fixture(name="upstream", scope="module")
def upstream_fixture() -> Iterator[ChatUpstream]:
    with chat_upstream() as upstream:
        yield upstream


@pytest.fixture(name="server", scope="module")
def server_fixture(
    upstream: ChatUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Yield a server with a model and the book."""
    folder = tmp_path_factory.mktemp("chat")
    given = {
        "database_url": f"sqlite:///{folder / 'lorewell.db'}",
        "replica_tenant": "demo",
        "gateway_upstream_url": upstream.url,
        "gateway_upstream_api_key": "sk-ours",
        "gateway_upstream_model": "fake",
        "log_level": "debug",
    }
    with running(folder / "log", **given) as server:
        assert server.client.post("/api/worldbooks", json=BOOK).status_code == 201
        yield server


@pytest.fixture(autouse=True)
def _behave(request: pytest.FixtureRequest) -> None:
    if "server" in request.fixturenames:
        upstream: ChatUpstream = request.getfixturevalue("upstream")
        upstream.behave()
        upstream.requests.clear()


def opened(server: Server, role: str = "沈七", **given: Any) -> connect:
    url = f"ws://127.0.0.1:{server.port}/api/chat/{quote(role)}/{quote('第一夜')}/ws"
    return connect(url, proxy=None, logger=QUIET, **given)


async def frames(client: ClientConnection) -> list[Frame]:
    """Return the frames up to the last one of a turn."""
    found = []
    while not found or found[-1]["type"] not in ("complete", "error"):
        found.append(json.loads(await client.recv()))
    return found


async def ask(client: ClientConnection, turn: object = TURN) -> list[Frame]:
    await client.send(turn if isinstance(turn, str) else json.dumps(turn, ensure_ascii=False))
    return await frames(client)


async def closed_with(client: ClientConnection) -> int | None:
    with suppress(ConnectionClosed):
        async for _ in client:
            pass
    return client.close_code


def types(found: list[Frame]) -> list[str]:
    return [frame["type"] for frame in found]


def said(found: list[Frame]) -> str:
    return "".join(frame["content"] for frame in found if frame["type"] == "chunk")


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(bounded())


def test_24_the_entries_come_before_the_first_chunk(server: Server, upstream: ChatUpstream) -> None:
    async def work() -> None:
        upstream.reply("灯 亮 了。")
        async with opened(server) as client:
            found = await ask(client)
        assert types(found) == ["worldbook_active", "chunk", "chunk", "chunk", "complete"]
        active = found[0]["entries"]
        assert [(each["uid"], each["position"]) for each in active] == [
            ("strong", 0),
            ("tower", 4),
            ("rule", 5),
        ]
        assert active[0]["content"] == "沈七认得你。"
        assert (active[1]["trigger_type"], active[1]["source"]) == ("keyword", "global")
        assert active[1]["position_label"] == "系统提示/作者注释"
        assert active[1]["trigger_config"] == BOOK["entries"][1]["trigger_config"]
        assert said(found) == "灯 亮 了。"
        assert found[-1] == {"type": "complete"}

    run(work)
    (request,) = upstream.requests
    assert request.headers["authorization"] == "Bearer sk-ours"
    assert (request.body["model"], request.body["stream"]) == ("fake", True)
    assert [(each["role"], each["content"]) for each in request.body["messages"]] == [
        ("system", "只说实话。"),
        ("system", "摆渡人。\n沈七认得你。\n沈七：上船。"),
        ("user", "雾来了。"),
        ("assistant", "上船吧。"),
        ("system", "灯塔由哑女看守。"),
        ("user", "去灯塔看看"),
    ]


def test_24_an_empty_list_is_sent_too(server: Server, upstream: ChatUpstream) -> None:
    async def work() -> None:
        upstream.reply("嗯。")
        async with opened(server) as client:
            for turn in ({}, {"worldBookData": None, "mes": "灯塔", "whatever": [1]}):
                found = await ask(client, turn)
                assert found[0] == {"type": "worldbook_active", "entries": []}
                assert types(found) == ["worldbook_active", "chunk", "complete"]

    run(work)


def test_24_a_client_that_ignores_the_entries_works_as_before(
    server: Server, upstream: ChatUpstream
) -> None:
    async def work() -> None:
        upstream.reply("渡船来了。")
        async with opened(server) as client:
            await client.send(json.dumps(TURN))
            text, is_whole = "", False
            while not is_whole:
                match json.loads(await client.recv()):
                    case {"type": "chunk", "content": content}:
                        text += content
                    case {"type": "complete"}:
                        is_whole = True
            assert text == "渡船来了。"

    run(work)


def test_turns_of_one_socket_are_answered_one_after_the_other(
    server: Server, upstream: ChatUpstream
) -> None:
    async def work() -> None:
        async with opened(server) as client:
            for number in range(3):
                turn = {**TURN, "mes": f"灯塔 {number}", "stream": False}
                await client.send(json.dumps(turn))
            for number in range(3):
                found = await frames(client)
                assert types(found) == ["worldbook_active", "chunk", "complete"]
                assert said(found) == f"灯塔 {number}"

    run(work)
    assert upstream.calls == 3


def test_without_streaming_the_reply_is_one_chunk(server: Server, upstream: ChatUpstream) -> None:
    async def work() -> None:
        upstream.reply("灯 亮 了。", times=1)
        upstream.reply("")
        async with opened(server) as client:
            found = await ask(client, {**TURN, "stream": False})
            assert types(found) == ["worldbook_active", "chunk", "complete"]
            assert said(found) == "灯 亮 了。"
            assert types(await ask(client)) == ["worldbook_active", "complete"]

    run(work)


def test_a_model_that_breaks_off_ends_the_turn_and_not_the_socket(
    server: Server, upstream: ChatUpstream
) -> None:
    async def work() -> None:
        upstream.do(Turn(content="a b c d", events=3), times=1)
        upstream.fail(400, times=1)
        upstream.reply("又好了。")
        async with opened(server) as client:
            found = await ask(client)
            assert types(found) == ["worldbook_active", "chunk", "chunk", "error"]
            assert found[-1]["problem"]["code"] == "upstream_unavailable"
            assert found[-1]["message"] == found[-1]["problem"]["detail"]
            found = await ask(client)
            assert types(found) == ["worldbook_active", "error"]
            assert found[-1]["problem"]["code"] == "upstream_refused"
            assert "灯塔" not in str(found[-1])
            assert types(await ask(client)) == ["worldbook_active", "chunk", "complete"]

    run(work)


@pytest.mark.parametrize(
    ("message", "code", "place"),
    [
        ("", "malformed_json", None),
        ("{", "malformed_json", None),
        ("[" * 101 + "]" * 101, "malformed_json", None),
        ('{"mes": NaN}', "malformed_json", None),
        ("[]", "validation_error", ""),
        ('"灯塔"', "validation_error", ""),
        ({"mes": 7}, "validation_error", "/mes"),
        ({"mes": "\x00"}, "validation_error", "/mes"),
        ({"chatHistory": [{"other": 1}]}, "validation_error", "/chatHistory/0"),
        ({"worldBookData": {"globalBooks": [{}]}}, "validation_error", "/worldBookData"),
    ],
)
def test_a_message_that_can_not_be_used_is_told(
    server: Server, message: object, code: str, place: str | None
) -> None:
    async def work() -> None:
        async with opened(server) as client:
            (frame,) = await ask(client, message)
            problem = frame["problem"]
            assert (frame["type"], problem["code"]) == ("error", code)
            if place is not None:
                assert problem["errors"][0]["pointer"].startswith(place)
            assert types(await ask(client, {}))[-1] == "complete"

    run(work)


def test_a_message_that_is_too_large_or_no_text_ends_the_socket(server: Server) -> None:
    async def code_of(message: str | bytes) -> int | None:
        async with opened(server) as client:
            await client.send(message)
            return await closed_with(client)

    async def work() -> None:
        assert await code_of("x" * (MAX_MESSAGE_BYTES + 1)) == 1009
        assert await code_of(b"{}") == 4422

    run(work)


def test_a_client_that_goes_ends_the_call_of_the_model(
    server: Server, upstream: ChatUpstream
) -> None:
    async def work() -> None:
        upstream.do(Turn(content="a " * 500, pause_s=0.02))
        async with opened(server) as client:
            await client.send(json.dumps(TURN))
            while json.loads(await client.recv())["type"] != "chunk":
                pass

    run(work)
    assert upstream.wait_gone()


def test_an_address_and_a_key_that_a_client_names_are_never_used(
    server: Server, upstream: ChatUpstream
) -> None:
    async def work() -> None:
        upstream.reply("嗯。")
        with chat_upstream() as theirs:
            config = {"api_url": theirs.url, "api_key": SECRET}
            async with opened(server) as client:
                assert types(await ask(client, {**TURN, "apiConfig": config}))[-1] == "complete"
                assert types(await ask(client, {**TURN, "apiConfig": 7}))[-1] == "complete"
            assert theirs.calls == 0

    run(work)
    assert all(SECRET not in str(request) for request in upstream.requests)
    logged = server.log()
    assert "/api/chat/{role}/{chat}/ws" in logged
    for text in (SECRET, "sk-ours", "去灯塔看看", "灯塔由哑女看守", "第一夜", "沈七"):
        assert text not in logged


def test_pages_of_other_origins_get_no_socket(server: Server) -> None:
    async def work() -> None:
        for origin in ("http://evil.example", "null", "http://localhost:1"):
            with pytest.raises(InvalidStatus) as refused:
                await opened(server, origin=origin)
            assert refused.value.response.status_code == 403
        async with opened(server, origin=server.url) as client:
            assert types(await ask(client, {}))[0] == "worldbook_active"

    run(work)


def test_books_bound_to_the_role_count_under_this_policy_alone(server: Server) -> None:
    def bind(prompt_id: str, policy: str) -> None:
        book = {
            "name": prompt_id,
            "entries": [{"id": "b", "content": "绑定的。", "constant": True}],
        }
        book_id = server.client.post("/v1/books", json=book).json()["books"][0]["book_id"]
        body = {"bindings": [{"book_id": book_id}], "policy": policy}
        params = {"prompt_id": prompt_id, "tenant_id": "demo"}
        answer = server.client.put("/v1/prompt-bindings", params=params, json=body)
        assert answer.status_code == 200, answer.text

    async def active(role: str, **members: object) -> list[str]:
        async with opened(server, role) as client:
            found = await ask(client, {**TURN, "mes": "", "dynamicTableData": {}, **members})
        return [each["uid"] for each in found[0].get("entries", [{"uid": found[0]["type"]}])]

    async def work() -> None:
        bind("青", "replica")
        bind("白", "sillytavern")
        assert await active("青") == ["b", "rule"]
        assert await active("白") == ["rule"]
        assert await active("无") == await active("x" * 300) == await active("\x01") == ["rule"]
        assert await active("无", prompt_id="青") == ["b", "rule"]
        assert await active("青", prompt_id="白") == ["error"]

    run(work)


def test_who_says_what_is_told_by_the_frame() -> None:
    listed: list[object] = [
        {"mes": "a", "is_user": True},
        {"content": "b", "role": "system"},
        "c",
        {"mes": "d", "is_user": 1, "role": "narrator"},
    ]
    frame = {"chatHistory": listed, "presetConfig": "预设。", "currentRole": "青", "mes": "e"}
    chat = read_frame(json.dumps(frame), "path")
    assert [tuple(each) for each in chat.draft.history] == [
        ("user", "a"),
        ("system", "b"),
        ("user", "c"),
        ("assistant", "d"),
    ]
    assert (chat.draft.character, chat.draft.examples) == ("预设。", "")
    assert (chat.request.char, chat.request.prompt_id) == ("青", "path")
    assert read_frame("{}", "path").request.char == "path"
    assert read_frame('{"char": "c", "currentRole": "青"}', "path").request.char == "c"
    odd = {"currentRole": {"name": 7, "description": ["x"]}, "presetConfig": 7, "stream": None}
    assert read_frame(json.dumps(odd), "").request.char is None
    assert read_frame(json.dumps(odd), "").draft.character == ""


@asynccontextmanager
async def key_for(database: str, *scopes: str, tenant: str = "demo") -> AsyncIterator[str]:
    """Give a key of a service on this database."""
    services = build_services(load_settings(database_url=database))
    await start(services)
    request = KeyRequest.model_validate({"tenants": [tenant], "scopes": scopes})
    try:
        yield (await create_key(services, request)).secret
    finally:
        await stop(services)


def test_keys_hold_and_without_a_model_there_are_the_entries_alone(
    database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("keys") / "log"

    async def work(server: Server) -> None:
        async with opened(server) as client:
            assert await closed_with(client) == 4401
        for scope, tenant in (("write", "demo"), ("read", "other")):
            async with key_for(database, scope, tenant=tenant) as key:
                headers = {"Authorization": f"Bearer {key}"}
                async with opened(server, additional_headers=headers) as client:
                    assert await closed_with(client) == 4403
        async with (
            key_for(database, "read") as key,
            opened(server, subprotocols=["lorewell", f"lorewell.key.{key}"]) as client,
        ):
            assert types(await ask(client)) == ["worldbook_active", "complete"]

    with running(log, database_url=database, auth=True, replica_tenant="demo") as server:
        run(lambda: work(server))


def test_it_is_off_unless_a_tenant_is_named(
    database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def work(server: Server) -> None:
        with pytest.raises(InvalidStatus):
            await opened(server)

    log = tmp_path_factory.mktemp("off") / "log"
    with running(log, database_url=database) as server:
        run(lambda: work(server))
