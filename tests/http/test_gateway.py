"""The gateway on real sockets: what the upstream gets, what the client gets back, who is let in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat_upstream import ChatUpstream, Turn, chat_upstream
from listening import listening
from lorewell.app.access import list_keys, revoke_key
from lorewell.http import sockets
from process import Server, running
from service import BOOK, Json, bearer, code, serving

BELL = {
    "id": "bell",
    "title": "钟 🔔",
    "content": "钟归沈七管。",
    "keys": ["钟"],
    "position": "at_depth",
    "depth": 1,
}
HOUSE = {
    "id": "house",
    "content": "The house is old.",
    "constant": True,
    "position": "after_character",
}
CHAT = [
    {"role": "system", "content": "你是沈七。"},
    {"role": "user", "content": "你好。"},
    {"role": "assistant", "content": "ว่าไง"},
    {"role": "user", "content": "我敲钟。"},
]
ROUTE = "/gateway/v1/chat/completions"

Start = Callable[..., "Asked"]


class Asked:
    """A server with a gateway, and the upstream behind it."""

    def __init__(self, server: Server, upstream: ChatUpstream) -> None:
        self.server, self.upstream = server, upstream
        self.client = httpx.Client(base_url=server.url, timeout=60)

    def bind(self, prompt_id: str, *entries: Json, tenant: str = "default", **put: Any) -> str:
        """Store a book of these entries, bind it to a prompt, return its id."""
        params = {"tenant_id": tenant}
        book = {"name": f"Book of {prompt_id}", "entries": entries}
        made = self.client.post("/v1/books", params=params, json=book)
        assert made.status_code == 201, made.text
        book_id: str = made.json()["books"][0]["book_id"]
        self.put(prompt_id, book_id, tenant=tenant, **put)
        return book_id

    def put(self, prompt_id: str, book_id: str, *, tenant: str = "default", **put: Any) -> None:
        params = {"tenant_id": tenant, "prompt_id": prompt_id}
        body = {"bindings": [{"book_id": book_id}], **put}
        bound = self.client.put("/v1/prompt-bindings", params=params, json=body)
        assert bound.status_code == 200, bound.text

    def __call__(
        self, messages: Json = CHAT, *, headers: dict[str, str] | None = None, **members: Any
    ) -> httpx.Response:
        body = {"model": "m", "messages": messages, **members}
        return self.client.post(ROUTE, json=body, headers=headers)

    @property
    def sent(self) -> Json:
        """What the upstream got last."""
        return self.upstream.requests[-1].body


@pytest.fixture(name="start")
def start_fixture(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(**given: object) -> Asked:
            upstream = stack.enter_context(chat_upstream())
            settings = {
                "database_url": f"sqlite:///{tmp_path / 'lorewell.db'}",
                "gateway_upstream_url": upstream.url,
                **given,
            }
            server = stack.enter_context(running(tmp_path / "log", **settings))
            asked = Asked(server, upstream)
            stack.callback(asked.client.close)
            return asked

        yield start


@pytest.fixture(name="asked", scope="module")
def asked_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A gateway that the tests with no settings of their own share."""
    folder = tmp_path_factory.mktemp("gateway")
    with (
        chat_upstream() as upstream,
        running(
            folder / "log",
            database_url=f"sqlite:///{folder / 'lorewell.db'}",
            gateway_upstream_url=upstream.url,
        ) as server,
    ):
        asked = Asked(server, upstream)
        yield asked
        asked.client.close()


@pytest.fixture(autouse=True)
def _behave(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "asked" in request.fixturenames:
        asked: Asked = request.getfixturevalue("asked")
        asked.upstream.behave()


# What is put in


def test_lore_goes_in_and_the_rest_stays(asked: Asked) -> None:
    asked.bind("lore", BELL, HOUSE)
    answer = asked(headers={"X-Lorewell-Prompt": "lore"})
    assert answer.status_code == 200, answer.text
    texts = [message["content"] for message in asked.sent["messages"]]
    assert len(texts) == 6
    assert [text for text in texts if "<worldbook-entry" not in text] == [
        each["content"] for each in CHAT
    ]
    assert "The house is old." in texts[1]  # after the character
    assert "钟归沈七管。" in texts[4]  # at depth 1: right before the input
    assert asked.sent["messages"][4]["role"] == "system"
    assert answer.headers["X-Lorewell-Entries"] == "2"
    assert int(answer.headers["X-Lorewell-Tokens"]) > 0
    assert answer.headers["X-Lorewell-Policy"] == "native"


def test_the_ledger_can_be_opened(asked: Asked) -> None:
    book_id = asked.bind("ledger", BELL, HOUSE, {"id": "gate", "content": "A gate.", "keys": ["g"]})
    answer = asked(headers={"X-Lorewell-Prompt": "ledger"})
    ledger = asked.client.get(answer.headers["X-Lorewell-Ledger"])
    assert ledger.status_code == 200, ledger.text
    reasons = {each["id"]: each["reason"] for each in ledger.json()["decisions"]}
    assert reasons[f"{book_id}:1:gate"] == "not_triggered"
    assert reasons[f"{book_id}:1:bell"] == "keyword"


def test_an_unbound_prompt_is_forwarded_byte_for_byte(asked: Asked) -> None:
    body = (
        b'{ "messages" : [{"role":"user","content":"\\u6211 \\ud800 \\u0000"}], "top_p":0.10,\n'
        b'"seed":123456789012345678901234567890, "x_odd": {"a":1e0,"a":2}, "model":"nobody" }'
    )
    asked.upstream.reply("Yes.")
    headers = {"Content-Type": "application/json"}
    answer = asked.client.post(ROUTE, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert asked.upstream.requests[-1].raw == body
    assert answer.headers["X-Lorewell-Entries"] == "0"
    assert "X-Lorewell-Ledger" not in answer.headers


def test_everything_but_the_messages_is_the_same_text(asked: Asked) -> None:
    asked.bind("verbatim", BELL)
    asked.upstream.reply("Yes.")
    begin = b'{"top_p":0.10,"seed":123456789012345678901234567890,"messages":['
    untouched = '{ "role":"user" , "content":"敲钟 \\ud83d\\ude00 \\ud800", "n":1.50 }'.encode()
    end = b'],"x_odd":{"a":1e0,"b":[ 1 ]},"user":"verbatim","model":"nobody"}\n'
    headers = {"Content-Type": "application/json"}
    answer = asked.client.post(ROUTE, content=begin + untouched + end, headers=headers)
    assert answer.headers["X-Lorewell-Entries"] == "1"
    raw = asked.upstream.requests[-1].raw
    assert raw.startswith(begin)
    assert raw.endswith(b"," + untouched + end)
    assert "钟归沈七管。" in raw.decode()


def test_tools_pictures_and_their_results_are_kept(asked: Asked) -> None:
    asked.bind("parts", BELL)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    call = {"id": "c1", "type": "function", "function": {"name": "ring", "arguments": '{"n":2}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "敲钟 🔔"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    tools = [{"type": "function", "function": {"name": "ring", "parameters": {"type": "object"}}}]
    answer = asked(messages, headers={"X-Lorewell-Prompt": "parts"}, tools=tools)
    assert answer.headers["X-Lorewell-Entries"] == "1"
    assert asked.sent["tools"] == tools
    assert asked.sent["messages"][1:] == messages
    assert "钟归沈七管。" in asked.sent["messages"][0]["content"]


def test_an_entry_without_a_key_in_sight_stays_out(asked: Asked) -> None:
    asked.bind("silent", BELL)
    said = [{"role": "user", "content": "Hello 🌊"}]
    answer = asked(said, headers={"X-Lorewell-Prompt": "silent"})
    assert answer.headers["X-Lorewell-Entries"] == "0"
    assert answer.headers["X-Lorewell-Prompt"] == "silent"
    assert asked.sent["messages"] == said


# Which prompt


def test_header_goes_before_user_and_user_before_model(asked: Asked) -> None:
    for name in ("by-header", "by-user", "by-model"):
        asked.bind(name, {**HOUSE, "content": f"House {name}."})

    def prompt(**given: Any) -> str:
        return str(asked(**given).headers.get("X-Lorewell-Prompt"))

    both = {"user": "by-user", "model": "by-model"}
    assert prompt(headers={"X-Lorewell-Prompt": "by-header"}, **both) == "by-header"
    assert prompt(**both) == "by-user"
    assert prompt(user="somebody", model="by-model") == "by-model"
    assert prompt(headers={"X-Lorewell-Prompt": "unknown"}, **both) == "None"
    assert prompt(user={"name": "an object"}, model="by-model") == "by-model"


def test_names_beyond_ascii_come_percent_encoded_or_as_utf8(asked: Asked) -> None:
    asked.bind("雾渡", HOUSE)
    for value in (b"%E9%9B%BE%E6%B8%A1", "雾渡".encode()):
        answer = asked.client.post(
            ROUTE, json={"messages": CHAT}, headers={b"X-Lorewell-Prompt": value}
        )
        assert answer.headers["X-Lorewell-Entries"] == "1"
        assert answer.headers["X-Lorewell-Prompt"] == "%E9%9B%BE%E6%B8%A1"


def test_without_a_model_of_its_own_the_name_and_the_list_are_the_upstreams(asked: Asked) -> None:
    asked(model="some/model")
    assert asked.sent["model"] == "some/model"
    assert asked.client.get("/gateway/v1/models").json()["data"][0]["id"] == "fake"


def test_with_a_model_of_its_own_prompts_are_models(start: Start) -> None:
    asked = start(gateway_upstream_model="real", gateway_tenant="t")
    asked.bind("雾渡", HOUSE, tenant="t")
    asked.bind("other", HOUSE, tenant="u")
    listed = asked.client.get("/gateway/v1/models").json()
    assert [each["id"] for each in listed["data"]] == ["雾渡", "real"]
    assert asked(model="雾渡").headers["X-Lorewell-Entries"] == "1"
    assert asked.sent["model"] == "real"
    asked.client.post(ROUTE, json={"messages": CHAT})
    assert asked.sent["model"] == "real"


# What comes back


def test_a_stream_comes_back_byte_for_byte_as_it_arrives(asked: Asked) -> None:
    asked.bind("stream", BELL)
    asked.upstream.do(Turn(content="一 two สาม 🔔", pause_s=0.1), times=2)
    body = {"model": "m", "stream": True, "messages": CHAT, "user": "stream"}
    direct = httpx.post(f"{asked.upstream.url}/chat/completions", json=body)
    begin = time.monotonic()
    with asked.client.stream("POST", ROUTE, json=body) as answer:
        pieces = [(time.monotonic() - begin, piece) for piece in answer.iter_raw()]
    assert b"".join(piece for _, piece in pieces) == direct.content
    assert answer.headers["Content-Type"] == direct.headers["Content-Type"]
    assert len(pieces) > 3
    assert pieces[-1][0] - pieces[0][0] > 0.2  # nothing was held back


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_of_the_upstream_comes_back_as_it_is(asked: Asked, status: int) -> None:
    body = b'{"error": {"message":"\xe4\xb8\x8d", "code": "x"} }'
    headers = {"Retry-After": "7", "X-RateLimit-Remaining": "0", "Set-Cookie": "a=b"}
    asked.upstream.do(Turn(status=status, body=body, headers=headers), times=1)
    answer = asked()
    assert answer.status_code == status
    assert answer.content == body
    assert answer.headers["Retry-After"] == "7"
    assert answer.headers["X-RateLimit-Remaining"] == "0"
    assert "Set-Cookie" not in answer.headers


def test_a_packed_answer_stays_packed(asked: Asked) -> None:
    packed = b"\x1f\x8b not really"
    headers = {"Content-Encoding": "x-odd", "Access-Control-Allow-Origin": "*"}
    asked.upstream.do(Turn(body=packed, headers=headers, status=201), times=1)
    with asked.client.stream("POST", ROUTE, json={"messages": CHAT}) as answer:
        assert b"".join(answer.iter_raw()) == packed
    assert answer.headers["Content-Encoding"] == "x-odd"
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("Application/JSON;charset=UTF-8", "Application/JSON;charset=UTF-8"),
        ("application/json; charset=utf-7", "application/json"),
        ("application/problem+json", "application/problem+json"),
        ("text/event-stream", "text/event-stream"),
        ("text/html", "application/octet-stream"),
        ("text/html; charset=utf-8", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("application/xhtml+xml", "application/octet-stream"),
        ("text/plain", "application/octet-stream"),
        ("application/json, text/html", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_what_an_upstream_sends_is_no_page_of_ours(asked: Asked, kind: str, expected: str) -> None:
    page = b"<script>alert(1)</script>"
    for status in (200, 502):
        turn = Turn(body=page, status=status, headers={"Content-Type": kind})
        asked.upstream.do(turn, times=1)
        answer = asked()
        assert (answer.status_code, answer.content) == (status, page)
        assert answer.headers["Content-Type"] == expected
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_of_an_upstreams_headers_only_known_ones_come_back(asked: Asked) -> None:
    known = {
        "Retry-After": "7",
        "retry-after-ms": "70",
        "x-should-retry": "true",
        "OpenAI-Processing-Ms": "5",
        "X-RateLimit-Limit-Requests": "9",
        "RateLimit": "limit=9",
        "Anthropic-RateLimit-Tokens-Limit": "8",
    }
    foreign = {
        "Set-Cookie": "a=b",
        "Access-Control-Allow-Origin": "*",
        "Location": "https://evil.example",
        "Refresh": "0; url=https://evil.example",
        "Link": "</x>; rel=preload",
        "Clear-Site-Data": '"*"',
        "Content-Security-Policy": "default-src *",
        "X-Content-Type-Options": "off",
        "Content-Disposition": "inline",
        "Service-Worker-Allowed": "/",
        "Strict-Transport-Security": "max-age=9",
        "X-Accel-Redirect": "/secret",
        "Cache-Control": "public, max-age=999",
        "X-Lorewell-Entries": "99",
        "WWW-Authenticate": "Basic",
        "X-Anything": "else",
    }
    asked.upstream.do(Turn(headers={**known, **foreign}), times=1)
    answer = asked()
    for name, value in known.items():
        assert answer.headers[name] == value
    for name, value in foreign.items():
        assert answer.headers.get(name) != value
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("status", [101, 301, 302, 304, 307, 600, 700, 999])
def test_a_status_that_says_nothing_here_is_a_bad_gateway(asked: Asked, status: int) -> None:
    turn = Turn(status=status, body=b"", headers={"Location": "https://evil.example"})
    asked.upstream.do(turn, times=1)
    assert error(asked()) == (502, "upstream_unavailable", "server_error")


# What goes wrong


def error(answer: httpx.Response) -> tuple[int, str, str]:
    found = answer.json()["error"]
    assert set(found) == {"message", "type", "code", "param"}
    assert found["message"]
    assert answer.headers["X-Request-ID"]
    return answer.status_code, found["code"], found["type"]


def test_an_upstream_that_is_down(start: Start) -> None:
    asked = start()
    asked.upstream.close()
    assert error(asked()) == (502, "upstream_unavailable", "server_error")
    answer = asked.client.get("/gateway/v1/models")
    assert error(answer) == (502, "upstream_unavailable", "server_error")


def test_an_upstream_that_hangs_up(asked: Asked) -> None:
    asked.upstream.drop(times=1)
    assert error(asked()) == (502, "upstream_unavailable", "server_error")


def test_an_upstream_that_is_too_slow(start: Start) -> None:
    asked = start(gateway_timeout_s=0.3)
    asked.upstream.hang(20, times=1)
    assert error(asked()) == (504, "upstream_timeout", "server_error")


def test_a_stream_that_breaks_off_has_no_end(start: Start) -> None:
    asked = start(gateway_timeout_s=0.5)
    for turn in (Turn(content="a b c d", events=2), Turn(events=2, then_hang_s=20.0)):
        asked.upstream.do(turn, times=1)
        received = b""
        with (  # noqa: PT012  what came before it broke off
            pytest.raises(httpx.RemoteProtocolError),
            asked.client.stream(
                "POST", ROUTE, json={"model": "m", "stream": True, "messages": CHAT}
            ) as answer,
        ):
            for piece in answer.iter_raw():
                received += piece
        assert received.count(b"data: ") == 2
        assert b"[DONE]" not in received
    assert "upstream_timeout" in asked.server.log()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_ends_the_call(asked: Asked, stream: bool) -> None:  # noqa: FBT001
    turn = (
        Turn(content="a " * 1000, pause_s=0.02) if stream else Turn(content="x" * 10**7, hang_s=1)
    )
    asked.upstream.do(turn, times=1)
    calls = asked.upstream.calls
    body = json.dumps({"model": "m", "stream": stream, "messages": CHAT}).encode()
    with socket.create_connection(("127.0.0.1", asked.server.port)) as client:
        head = f"POST {ROUTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if stream:
            assert client.recv(10)
        deadline = time.monotonic() + 10
        while asked.upstream.calls == calls and time.monotonic() < deadline:
            time.sleep(0.01)
    assert asked.upstream.wait_gone(10)
    asked.upstream._gone.clear()


def test_a_prompt_that_is_too_large_is_not_sent(start: Start) -> None:
    asked = start(gateway_context_window=100, gateway_reserved_output=10)
    asked.bind("p", HOUSE)
    short = [{"role": "user", "content": "Hi"}]
    header = {"X-Lorewell-Prompt": "p"}
    assert asked(short, headers=header).status_code == 200
    calls = asked.upstream.calls
    long = [{"role": "user", "content": "word " * 100}]
    assert error(asked(long, headers=header)) == (
        *(400, "agent.context_overflow"),
        "invalid_request_error",
    )
    # What the client lets the answer take counts in place of the setting.
    assert error(asked(short, headers=header, max_tokens=90))[1] == "agent.context_overflow"
    assert asked.upstream.calls == calls
    assert asked(long, headers={"X-Lorewell-Prompt": "unbound"}).status_code == 200


def test_a_required_rule_that_fits_nowhere_fails_the_turn(start: Start) -> None:
    asked = start(gateway_token_budget=30)
    book_id = asked.bind("p", {**HOUSE, "required": True, "content": "law " * 100})
    header = {"X-Lorewell-Prompt": "p"}
    assert error(asked(headers=header)) == (400, "budget_exceeded", "invalid_request_error")
    assert asked.upstream.calls == 0
    # The setting wins over the default, and the budget of the prompt over the setting.
    asked.put("p", book_id, settings={"native": {"token_budget": 1_000}})
    assert asked(headers=header).status_code == 200


def test_a_binding_that_is_gone_fails_the_turn(start: Start) -> None:
    asked = start()
    book_id = asked.bind("p", HOUSE)
    params = {"tenant_id": "default", "force": "true"}
    assert asked.client.delete(f"/v1/books/{book_id}", params=params).status_code == 204
    answer = asked(headers={"X-Lorewell-Prompt": "p"})
    assert error(answer) == (409, "binding_invalid", "invalid_request_error")
    assert asked.upstream.calls == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "malformed_json"),
        (b"[]", "validation_error"),
        (b'{"messages": [', "malformed_json"),
        (b'{"messages": [], "messages": []}', "malformed_json"),
        (b'{"model": "m"}', "validation_error"),
        (b'{"messages": ["x"]}', "validation_error"),
        (b'{"messages": ' + b"[" * 200 + b"]" * 200 + b"}", "malformed_json"),
    ],
)
def test_bodies_that_are_none(asked: Asked, body: bytes, expected: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = asked.client.post(ROUTE, content=body, headers=headers)
    assert error(answer) == (400, expected, "invalid_request_error")


def test_other_answers_of_the_service_have_the_same_form(asked: Asked) -> None:
    post = asked.client.post
    assert error(post(ROUTE, content=b"{}"))[:2] == (415, "unsupported_media_type")
    assert error(asked.client.get(ROUTE))[:2] == (405, "method_not_allowed")
    assert error(post("/gateway/v1/embeddings", json={}))[:2] == (404, "not_found")
    odd = {"X-Lorewell-Conversation": "a/b"}
    answer = asked(headers=odd)
    assert error(answer)[1] == "validation_error"
    assert answer.json()["error"]["param"] == "X-Lorewell-Conversation"


def test_a_body_is_refused_while_it_arrives(start: Start) -> None:
    asked = start(max_body_bytes=1_000)
    answer = asked([{"role": "user", "content": "x" * 2_000}])
    assert error(answer)[:2] == (413, "body_too_large")
    assert asked.upstream.calls == 0


def test_a_gateway_without_an_upstream_is_off(database: str) -> None:
    with serving(database_url=database, gateway_upstream_url="") as api:
        for method, path in (("POST", ROUTE), ("GET", "/gateway/v1/models")):
            answer = api(method, path, tenant=None, json={"messages": []})
            assert error(answer) == (404, "gateway_off", "not_found_error")


# Who is let in


def test_foreign_pages_and_hosts_are_refused(asked: Asked) -> None:
    foreign = asked(headers={"Origin": "https://evil.example"})
    assert error(foreign) == (403, "forbidden", "permission_error")
    assert error(asked(headers={"Host": "evil.example"}))[:2] == (421, "misdirected_request")


def test_a_page_that_is_let_in_may_read_the_headers(start: Start) -> None:
    asked = start(cors_origins="https://chat.example")
    origin = {"Origin": "https://chat.example"}
    asking = {**origin, "Access-Control-Request-Method": "POST"}
    allowed = asked.client.options(ROUTE, headers=asking).headers["Access-Control-Allow-Headers"]
    assert {"X-Lorewell-Prompt", "X-Stainless-Lang", "Authorization"} <= set(allowed.split(", "))
    shown = asked(headers=origin).headers["Access-Control-Expose-Headers"]
    assert {"X-Lorewell-Entries", "X-Lorewell-Ledger"} <= set(shown.split(", "))


def sent_key(asked: Asked) -> str | None:
    return asked.upstream.requests[-1].headers.get("authorization")


def test_without_keys_only_the_servers_own_key_goes_on(start: Start) -> None:
    asked = start(gateway_upstream_api_key="own-secret")
    headers = {"Authorization": "Bearer sk-client", "Cookie": "a=b", "X-Title": "t", "X-Odd": "1"}
    asked(headers={**headers, "OpenAI-Project": "p"})
    assert sent_key(asked) == "Bearer own-secret"
    got = asked.upstream.requests[-1].headers
    assert (got["x-title"], got["openai-project"]) == ("t", "p")
    assert not {"cookie", "x-odd", "x-lorewell-prompt", "origin"} & got.keys()
    asked(headers={"X-Upstream-Authorization": "Bearer sk-named"})
    assert sent_key(asked) == "Bearer sk-named"
    assert "own-secret" not in asked.server.log()


def test_without_keys_the_clients_own_goes_on_if_configured(start: Start) -> None:
    asked = start(gateway_pass_authorization=True, gateway_upstream_api_key="own-secret")
    asked(headers={"Authorization": "Bearer sk-client"})
    assert sent_key(asked) == "Bearer sk-client"
    asked()
    assert sent_key(asked) == "Bearer own-secret"
    asked(headers={"Authorization": "Bearer lw_1_ours"})
    assert sent_key(asked) == "Bearer own-secret"


def test_a_key_says_whose_books_are_used(database: str) -> None:

    with (
        chat_upstream() as upstream,
        serving(
            database_url=database,
            auth=True,
            gateway_upstream_url=upstream.url.replace("//", "//user:p%40ss@"),
            gateway_tenant="beta",
            gateway_pass_authorization=True,
        ) as api,
    ):
        for tenant in ("alpha", "beta"):
            writer = bearer(api, "read", "write", tenants=(tenant,))
            book_id = api.create({**BOOK, "name": tenant}, tenant=tenant, headers=writer)
            body = {"bindings": [{"book_id": book_id}], "policy": "sillytavern"}
            params = {"prompt_id": tenant}
            put = api(
                "PUT",
                "/v1/prompt-bindings",
                json=body,
                params=params,
                tenant=tenant,
                headers=writer,
            )
            assert put.status_code == 200, put.text

        def ask(headers: dict[str, str], prompt: str) -> httpx.Response:
            said = [{"role": "user", "content": "a lamp"}]
            body = {"messages": said, "user": prompt}
            answer: httpx.Response = api("POST", ROUTE, json=body, headers=headers, tenant=None)
            return answer

        alpha = bearer(api, "read", "write", tenants=("alpha",))
        every = bearer(api, "read", "write", tenants=("*",))
        assert ask(alpha, "alpha").headers["X-Lorewell-Entries"] == "1"
        assert upstream.requests[-1].headers["authorization"].startswith("Basic ")
        assert ask(alpha, "beta").headers["X-Lorewell-Entries"] == "0"
        assert ask(every, "beta").headers["X-Lorewell-Entries"] == "1"
        assert ask(every, "alpha").headers["X-Lorewell-Entries"] == "0"
        named = {"X-Upstream-Authorization": "Bearer sk-mine"}
        assert ask({**alpha, **named}, "alpha").status_code == 200
        assert upstream.requests[-1].headers["authorization"] == "Bearer sk-mine"
        calls = upstream.calls
        reader = bearer(api, "read", tenants=("alpha",))
        assert error(ask(reader, "alpha"))[:2] == (403, "forbidden")  # timed state is written
        assert ask(reader, "nobody").status_code == 200
        two = bearer(api, "read", tenants=("alpha", "gamma"))
        assert error(ask(two, "alpha"))[:2] == (403, "forbidden")
        assert error(ask(bearer(api, "admin", tenants=("*",)), "beta"))[:2] == (403, "forbidden")
        assert error(ask({}, "alpha")) == (401, "unauthenticated", "authentication_error")
        assert error(ask({"Authorization": "Bearer sk-x"}, "alpha"))[0] == 401
        assert upstream.calls == calls + 1


def test_a_key_that_is_revoked_ends_its_answers(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)

    async def work(upstream: ChatUpstream) -> None:
        given = {"gateway_upstream_url": upstream.url, "auth": True}
        async with listening(database, **given) as service:
            for stream in (True, False):
                turn = Turn(content="a " * 500, pause_s=0.02, hang_s=0 if stream else 5)
                upstream.do(turn, times=1)
                headers = {"Authorization": f"Bearer {await service.key('read')}"}
                body = {"model": "m", "messages": CHAT, "stream": stream}
                async with service.asking(headers=headers) as client:
                    asking = asyncio.create_task(client.post(ROUTE, json=body))
                    await asyncio.sleep(0.3)
                    assert not asking.done()
                    row = (await list_keys(service.services)).keys[-1]
                    await revoke_key(service.services, row.id)
                    if stream:
                        with pytest.raises(httpx.RemoteProtocolError):
                            await asking
                    else:
                        assert code(await asking) == "unauthenticated"

    with chat_upstream() as upstream:
        asyncio.run(work(upstream))


# The beginning of a prompt


def test_the_beginning_stays_the_same_and_is_told(start: Start) -> None:
    asked = start(gateway_stable_prefix="true")
    asked.bind(
        "p",
        {**HOUSE, "position": "before_character"},
        {**BELL, "position": "before_character"},
    )
    headers = {"X-Lorewell-Prompt": "p", "X-Lorewell-Conversation": "雾".encode().hex()}
    first = asked(CHAT[:2], headers=headers)
    assert "X-Lorewell-Prefix-Tokens" not in first.headers
    second = asked(headers=headers)
    texts = [message["content"] for message in asked.sent["messages"]]
    assert "old" in texts[0]  # constant lore first, then the character, then what is new
    assert texts[1] == CHAT[0]["content"]
    assert "沈七管" in texts[2]
    same, whole = map(int, second.headers["X-Lorewell-Prefix-Tokens"].split("/"))
    assert 0 < same < whole
    third = asked(headers=headers)
    same, again = map(int, third.headers["X-Lorewell-Prefix-Tokens"].split("/"))
    assert same == again == whole


def test_neighbours_are_joined_if_configured(start: Start) -> None:
    asked = start(gateway_merge_adjacent="true")
    asked.bind("p", HOUSE)
    asked(headers={"X-Lorewell-Prompt": "p"})
    assert [each["role"] for each in asked.sent["messages"]] == [each["role"] for each in CHAT]
    assert asked.sent["messages"][0]["content"].startswith("你是沈七。\n\n<worldbook-entry")


def test_same_messages_draw_the_same_chance(asked: Asked) -> None:
    rare = [
        {"id": f"e{n}", "content": f"Rare {n}.", "constant": True, "probability": 50}
        for n in range(30)
    ]
    asked.bind("chance", *rare)
    header = {"X-Lorewell-Prompt": "chance"}
    seen = []
    for messages in (CHAT, CHAT, CHAT[:2]):
        asked(messages, headers=header)
        seen.append(hashlib.sha256(json.dumps(asked.sent["messages"][:-1]).encode()).hexdigest())
    assert seen[0] == seen[1] != seen[2]
