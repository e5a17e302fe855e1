"""Whole chats over HTTP: replays as one document and as lines, differences, plans."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from service import UNKNOWN_BOOK, Api, Json, code, serving

POLICIES = {"native": "/v1/context/replay", "replica": "/v1/replica/replay"}
LAMP = {"id": "lamp", "title": "灯", "content": "A lamp.", "keys": ["lamp", "灯"]}
KING = {"id": "king", "content": "The old king is dead.", "keys": ["king"]}
BOOK = {"name": "雾隐渡", "entries": [LAMP, KING]}
CHAT = [
    {"role": "user", "content": "the lamp"},
    {"role": "assistant", "content": "ประภาคาร"},
    {"role": "user", "content": "谁点的灯？"},
]
RULES = {"native": {"strategy": "rules", "scan_depth": 1}}


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, database: str) -> Iterator[Api]:
    url = database if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    with serving(database_url=url) as api:
        yield api


def keep(api: Api) -> str:
    return api.create(BOOK)


def bind(api: Api, book_id: str, policy: str, **settings: Json) -> None:
    body = {"bindings": [{"book_id": book_id}], "policy": policy, "settings": settings}
    answer = api("PUT", "/v1/prompt-bindings", params={"prompt_id": "p"}, json=body)
    assert answer.status_code == 200, answer.text


def names(step: Json) -> list[str]:
    return [each["entry_id"] for each in step["used"]]


def lines(api: Api, path: str, body: Json) -> list[Any]:
    answer = api("POST", path, json=body, headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_prompt_is_replayed_with_its_books_and_settings(api: Api, policy: str) -> None:
    bind(api, keep(api), policy, **RULES)
    body = {"prompt_id": "p", "chat": CHAT}
    answer = api("POST", POLICIES[policy], json=body).json()
    assert answer["policy"] == policy
    assert [step["messages"] for step in answer["steps"]] == [1, 3]
    assert [names(step) for step in answer["steps"]] == [["lamp"], ["lamp"]]
    assert answer["rest_from"] is None
    assert answer["snapshot"][0]["entry_count"] == 2
    first, *steps, rest = lines(api, POLICIES[policy], body)
    assert first == {"policy": policy, "turns": 2}
    assert steps == answer["steps"]
    assert rest == {**answer, "steps": []}
    mismatch = POLICIES["replica" if policy == "native" else "native"]
    assert code(api("POST", mismatch, json=body)) == "policy_mismatch"


def test_a_native_replay_is_what_single_turns_give(api: Api) -> None:
    book_id = keep(api)
    books = [{"book_id": book_id}]
    every = {"turns_after": "every_message", "settings": RULES}
    answer = api("POST", POLICIES["native"], json={"books": books, "chat": CHAT, **every}).json()
    for number, step in enumerate(answer["steps"], 1):
        turn = {
            "books": books,
            "query": CHAT[number - 1]["content"],
            "history": CHAT[: number - 1],
            "seed": f"0:{number}",
            "token_budget": 2400,
            **RULES["native"],
        }
        selected = api("POST", "/v1/context/select", json=turn).json()
        assert names(step) == [block["entry_id"] for block in selected["blocks"]]
        assert step["tokens"] == selected["token_count"]
    story = {each["entry_id"]: each for each in answer["entries"]}
    assert (story["king"]["turns"], story["king"]["why"]) == (0, "not_triggered")


def test_a_stored_book_is_compared_with_its_changes_and_with_other_settings(api: Api) -> None:
    book_id = keep(api)
    changed = {"book_id": book_id, "changes": [{**LAMP, "keys": ["lamp"]}]}
    side = {"books": [{"book_id": book_id}], "settings": RULES}
    body: dict[str, Any] = {
        "chat": CHAT,
        "first": side,
        "second": {"books": [changed], "settings": RULES},
    }
    answer = api("POST", "/v1/replay/diff", json=body).json()
    assert answer["summary"].startswith("1 of 2 turns change; 灯 no longer fires in 1; -")
    assert [each["messages"] for each in answer["changed"]] == [3]
    assert answer["changed"][0]["dropped"] == [{"book": 0, "entry_id": "lamp"}]
    same = api("POST", "/v1/replay/diff", json={**body, "second": side}).json()
    assert (same["changed"], same["entries"], same["tokens"]) == ([], [], 0)
    poor = {**side, "settings": {"native": {**RULES["native"], "token_budget": 1}}}
    assert len(api("POST", "/v1/replay/diff", json={**body, "second": poor}).json()["changed"]) == 2
    other = {"books": [{"book": BOOK}], "policy": "sillytavern"}
    assert api("POST", "/v1/replay/diff", json={**body, "second": other}).status_code == 200


def test_a_plan_has_costs_and_the_curve(api: Api) -> None:
    body = {"books": [{"book_id": keep(api)}], "settings": RULES, "chat": CHAT}
    answer = api("POST", "/v1/replay/plan", json=body).json()
    (lamp,) = answer["entries"]
    assert lamp["turns"] == 2
    assert [step["uses"] for step in answer["curve"]] == [0, 2]
    assert answer["curve"][1]["budget"] * 2 == lamp["tokens"]
    assert answer["budget"] == 2400


def test_sillytaverns_replay_comes_as_lines_too(api: Api) -> None:
    entry = {"uid": 7, "key": ["lamp"], "content": "A lamp."}
    books = [{"name": "港", "entries": {"0": entry}}]
    chat = [{"content": each["content"]} for each in CHAT]
    body: dict[str, Any] = {"books": books, "chat": chat, "context_tokens": 999}
    whole = api("POST", "/v1/sillytavern/replay", json=body).json()
    first, *turns, rest = lines(api, "/v1/sillytavern/replay", body)
    assert first == {"policy": "sillytavern", "turns": 3}
    assert turns == whole["turns"]
    assert rest == {**whole, "turns": []}


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_problems_come_before_the_first_line(api: Api, accept: str) -> None:
    def problem(path: str, **body: Json) -> str:
        headers = {"Accept": accept}
        return code(api("POST", path, json={"chat": CHAT, **body}, headers=headers))

    for path in POLICIES.values():
        assert problem(path) == "validation_error"
        assert problem(path, books=[{"book_id": UNKNOWN_BOOK}]) == "book_not_found"
        silent = [{"role": "assistant", "content": "灯"}]
        assert problem(path, books=[{"book": BOOK}], chat=silent) == "validation_error"


def test_both_values_of_a_field_are_shown_on_request(api: Api) -> None:
    book_id = keep(api)
    entries = [{**LAMP, "content": "Eine Lampe."}, KING]
    second = {**BOOK, "entries": entries, "expected_revision": 1}
    published = api("POST", f"/v1/books/{book_id}/revisions", json=second)
    assert published.status_code in (200, 201), published.text
    path, revisions = f"/v1/books/{book_id}/diff", {"from": 1, "to": 2}
    plain = api("GET", path, params=revisions).json()
    assert plain["changed"] == [{"id": "lamp", "fields": ["content"]}]
    answer = api("GET", path, params={**revisions, "values": "true"}).json()
    values = [{"name": "content", "before": "A lamp.", "after": "Eine Lampe."}]
    assert answer["changed"] == [{"id": "lamp", "fields": ["content"], "values": values}]
    assert answer["book_values"] == []


def test_a_client_that_leaves_stops_the_work(api: Api) -> None:
    chat = [{"role": "user", "content": f"lamp {number}"} for number in range(3_000)]
    body = json.dumps({"books": [{"book": BOOK}], "chat": chat}).encode()
    sent: list[bytes] = []

    async def leave() -> None:
        gone, asked = asyncio.Event(), [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            if asked:
                return asked.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.extend(message.get("body", b"").splitlines())
            if len(sent) > 1:
                gone.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": POLICIES["native"],
            "raw_path": POLICIES["native"].encode(),
            "query_string": b"tenant_id=demo",
            "headers": [
                (b"host", b"127.0.0.1"),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"accept", b"application/x-ndjson"),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        with suppress(ClientDisconnect):
            await api.app(scope, receive, send)
        for _ in range(1_000):  # until the thread has noticed
            if not computing.running:
                break
            await asyncio.sleep(0.01)

    computing = api.app.state.shared.services.computing
    api.run(leave())
    assert computing.running == 0
    assert 1 < len(sent) < 2_000
