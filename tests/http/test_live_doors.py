"""What the live channel tells of each door: places, reasons, texts, and nothing of previews."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lorewell.app.live.events import of_replica
from lorewell.model.live import PREVIEW_CHARS, LiveSelection, Occasion, SelectionContext
from replica_books import constant, keyed, turn
from service import Api, Json, serving

PROMPT = {"prompt_id": "场景 1"}
DEMO = {"demo_tenant": "demo", "gateway_tenant": "demo", "live": True}
NATIVE = {
    "name": "雾渡",
    "entries": [
        {"id": "bell", "title": "钟 🔔", "content": "钟" * 300, "keys": ["钟"]},
        {"id": "house", "content": "หมอก.", "constant": True, "position": "after_character"},
        {"id": "d1", "content": "浅", "constant": True, "position": "at_depth", "depth": 1},
        {"id": "d9", "content": "深", "constant": True, "position": "at_depth", "depth": 9},
        {
            "id": "d9u",
            "content": "深 user",
            "constant": True,
            "position": "at_depth",
            "depth": 9,
            "role": "user",
        },
        {"id": "off", "content": "Never.", "keys": ["nothing"]},
    ],
}
WORLD = {
    "entries": {
        "0": {"uid": 0, "key": ["钟"], "content": "后 {{char}}.", "position": 0, "order": 20},
        "1": {"uid": 1, "comment": "灯 🏮", "constant": True, "content": "先", "position": 0},
        "2": {"uid": 2, "constant": True, "content": "D", "position": 4, "depth": 2, "role": 1},
        "3": {"uid": 3, "constant": True, "content": "O", "position": 7, "outletName": "码头"},
        "4": {"uid": 4, "constant": True, "content": "", "position": 1},
        "5": {"uid": 5, "constant": True, "content": "E", "position": 5},
    }
}
WORLD["entries"]["1"]["order"] = 10
CHAT = [{"role": "user", "content": "我敲钟。"}]


@pytest.fixture(name="live")
def live_fixture(database: str) -> Iterator[Api]:
    with serving(database_url=database, **DEMO) as api:
        yield api


def events(api: Api) -> list[Json]:
    """Return all events that were published."""
    services = api.app.state.shared.services
    api.run(services.live.flush())
    found = api.run(services.store.read(lambda tx: tx.list_live(after=0, limit=99)))
    return [json.loads(each.body) for each in found]


def native(api: Api) -> str:
    book_id = api.create(NATIVE)
    body = {"bindings": [{"book_id": book_id}]}
    assert api("PUT", "/v1/prompt-bindings", params=PROMPT, json=body).status_code == 200
    return book_id


def world(api: Api) -> str:
    data = json.dumps(WORLD).encode()
    answer = api("POST", "/v1/imports/files", files=[("files", ("港.json", data))])
    book_id = str(answer.json()["books"][0]["book_id"])
    body = {"bindings": [{"book_id": book_id}]}
    assert api("PUT", "/v1/prompt-bindings", params=PROMPT, json=body).status_code == 200
    return book_id


def places(event: Json) -> list[tuple[Any, ...]]:
    named = ("depth", "role", "outlet_name")
    return [
        (
            group["position"],
            *(group[name] for name in named if name in group),
            [entry["entry_id"] for entry in group["entries"]],
        )
        for group in event["groups"]
    ]


def test_a_native_selection_is_told_by_place(live: Api) -> None:
    book_id = native(live)
    body = {"books": [{"book_id": book_id, "revision": 1}], "query": "钟"}
    assert live("POST", "/v1/context/select", params=PROMPT, json=body).status_code == 200
    live("POST", "/v1/context/select", json=body)  # for nobody
    live("POST", "/v1/context/preview", params=PROMPT, json=body)
    (event,) = events(live)
    assert places(event) == [
        ("before_character", ["bell"]),
        ("after_character", ["house"]),
        ("at_depth", 9, "system", ["d9"]),
        ("at_depth", 9, "user", ["d9u"]),
        ("at_depth", 1, "system", ["d1"]),
    ]
    bell = event["groups"][0]["entries"][0]
    assert (bell["book_id"], bell["title"]) == (book_id, "钟 🔔")
    assert (bell["reason"], bell["key"]) == ("keyword", "钟")
    assert bell["preview"] == "钟" * PREVIEW_CHARS
    assert event["groups"][1]["label"] == "after the character"
    assert "key" not in event["groups"][1]["entries"][0]
    stats = event["stats"]
    assert (stats["total"], stats["unlisted"]) == (5, 0)
    assert [(each["position"], each["count"]) for each in stats["by_position"]] == [
        ("before_character", 1),
        ("after_character", 1),
        ("at_depth", 3),
    ]
    assert stats["by_reason"] == {"keyword": 1, "constant": 4}
    assert sum(e["tokens"] for g in event["groups"] for e in g["entries"]) == stats["tokens"]
    assert (event["policy"], event["source"], event["conversation_id"]) == (
        "native",
        "select",
        None,
    )
    assert (event["tenant_id"], event["prompt_id"]) == ("demo", "场景 1")
    ledger = live("GET", event["ledger"], tenant=None)
    assert len(ledger.json()["decisions"]) == len(NATIVE["entries"])


def test_without_an_explanation_there_are_no_tokens_of_entries(live: Api) -> None:
    book_id = native(live)
    refs = [{"book_id": book_id, "revision": 1}]
    body = {"books": refs, "query": "钟", "explain": "none"}
    live("POST", "/v1/context/select", params=PROMPT, json=body)
    (event,) = events(live)
    assert event["stats"]["total"] == 5
    assert "tokens" not in event["groups"][0]["entries"][0]


def test_an_activation_is_told_as_sillytavern_places_it(live: Api) -> None:
    book_id = world(live)
    body = {
        **PROMPT,
        "chat": [{"content": "我敲钟。"}],
        "macros": {"char": "沈七"},
        "conversation_id": "c1",
        "context_tokens": 8_000,
    }
    answer = live("POST", "/v1/sillytavern/activate", json=body)
    assert answer.status_code == 200
    activated = answer.json()["activated"]
    live("POST", "/v1/sillytavern/activate", json={**body, "dry_run": True})
    live("POST", "/v1/sillytavern/preview", json=body)
    (event,) = events(live)
    assert (event["policy"], event["source"]) == ("sillytavern", "activate")
    assert event["conversation_id"] == "c1"
    opened = live("GET", event["ledger"].partition("?")[0]).json()
    assert [each["id"] for each in opened["activated"]] == [each["id"] for each in activated]
    assert opened["verdicts"]
    assert places(event) == [
        ("before_character", ["1", "0"]),
        ("before_examples", ["5"]),
        ("at_depth", 2, "user", ["2"]),
        ("outlet", "码头", ["3"]),
        ("nowhere", ["4"]),
    ]
    first, second = event["groups"][0]["entries"]
    assert (first["title"], first["reason"], first["book_id"]) == ("灯 🏮", "constant", book_id)
    assert (second["key"], second["preview"]) == ("钟", "后 沈七.")
    assert event["stats"]["tokens"] > 0


def test_books_inside_a_request_have_a_name_alone(live: Api) -> None:
    given = {"name": "随身", "source": "chat", "entries": WORLD["entries"]}
    body = {"books": [given], "chat": [{"content": "钟"}], "context_tokens": 8_000}
    answer = live("POST", "/v1/sillytavern/activate", params=PROMPT, json=body)
    assert answer.status_code == 200, answer.text
    (event,) = events(live)
    entry = event["groups"][0]["entries"][0]
    assert (entry["book_id"], entry["book"]) == (None, "随身")


def test_the_gateway_tells_of_its_turns(live: Api) -> None:
    native(live)
    headers = {"X-Lorewell-Prompt": "%E5%9C%BA%E6%99%AF%201", "X-Lorewell-Conversation": "c2"}
    asked = {"model": "m", "messages": CHAT}
    answer = live("POST", "/gateway/v1/chat/completions", tenant=None, json=asked, headers=headers)
    assert answer.status_code == 502  # nobody is behind it
    (event,) = events(live)
    assert (event["source"], event["prompt_id"], event["conversation_id"]) == (
        "gateway",
        "场景 1",
        "c2",
    )
    assert places(event)[0] == ("before_character", ["bell"])
    assert live("GET", event["ledger"], tenant=None).status_code == 200


def test_the_gateway_tells_of_sillytaverns_too(live: Api) -> None:
    world(live)
    headers = {"X-Lorewell-Prompt": "%E5%9C%BA%E6%99%AF%201"}
    asked = {"model": "m", "messages": CHAT}
    live("POST", "/gateway/v1/chat/completions", tenant=None, json=asked, headers=headers)
    (event,) = events(live)
    assert (event["policy"], event["source"]) == ("sillytavern", "gateway")
    assert live("GET", event["ledger"], tenant=None).status_code == 200


@pytest.mark.parametrize("bind", [native, world])
def test_turns_inside_the_service_are_told(live: Api, bind: Any) -> None:
    bind(live)
    said = {"conversation_id": "c3", **PROMPT, "input": "我敲钟。"}
    assert live("POST", "/demo/api/chat", tenant=None, json=said).status_code == 200
    (event,) = events(live)
    assert (event["source"], event["prompt_id"]) == ("turn", "场景 1")
    assert event["stats"]["total"] >= 5


def test_a_selection_that_finds_nothing_is_told(live: Api) -> None:
    book_id = live.create(
        {"name": "Empty", "entries": [{"id": "e", "content": "c", "keys": ["x"]}]}
    )
    body = {"books": [{"book_id": book_id, "revision": 1}], "query": "y"}
    live("POST", "/v1/context/select", params=PROMPT, json=body)
    (event,) = events(live)
    assert (event["groups"], event["stats"]["total"]) == ([], 0)


def test_a_turn_that_fails_is_not(live: Api) -> None:
    body = {"books": [{"book_id": "x", "revision": 1}], "query": "y"}
    assert live("POST", "/v1/context/select", params=PROMPT, json=body).status_code == 404
    assert events(live) == []


REPLICA = {"name": "雾", "entries": [constant("e1", position=5), keyed("钟e", "钟", comment="钟")]}


def replica(api: Api) -> str:
    data = json.dumps(REPLICA).encode()
    answer = api("POST", "/v1/imports/files", files=[("files", ("雾.json", data))])
    assert answer.status_code == 201, answer.text
    book_id = str(answer.json()["books"][0]["book_id"])
    body = {"bindings": [{"book_id": book_id}], "policy": "replica"}
    assert api("PUT", "/v1/prompt-bindings", params=PROMPT, json=body).status_code == 200
    return book_id


def test_replicas_door_tells_of_its_turns(live: Api) -> None:
    book_id = replica(live)
    body = {"mes": "我敲钟。", "prompt_id": PROMPT["prompt_id"]}
    answer = live("POST", "/v1/replica/activate", json=body)
    assert answer.status_code == 200, answer.text
    live("POST", "/v1/replica/activate", params={"prompt_id": "other"}, json=body)
    live("POST", "/v1/replica/preview", json=body)
    first, second = events(live)
    assert (first["policy"], first["source"]) == ("replica", "replica")
    assert (first["prompt_id"], second["prompt_id"]) == ("场景 1", "other")
    assert [place[0] for place in places(first)] == [5, 0]
    assert first["groups"][1]["entries"][0]["book_id"] == book_id
    assert first["groups"][1]["entries"][0]["key"] == "钟"
    assert "key" not in first["groups"][0]["entries"][0]  # a constant one
    assert live("GET", first["ledger"], tenant=None).status_code == 200


def test_the_gateway_and_turns_tell_of_replicas_too(live: Api) -> None:
    replica(live)
    headers = {"X-Lorewell-Prompt": "%E5%9C%BA%E6%99%AF%201"}
    asked = {"model": "m", "messages": CHAT}
    live("POST", "/gateway/v1/chat/completions", tenant=None, json=asked, headers=headers)
    said = {"conversation_id": "c3", **PROMPT, "input": "我敲钟。"}
    assert live("POST", "/demo/api/chat", tenant=None, json=said).status_code == 200
    sources = [
        (event["policy"], event["source"], event["stats"]["total"]) for event in events(live)
    ]
    assert sources == [("replica", "gateway", 2), ("replica", "turn", 2)]
    keys = [event["groups"][1]["entries"][0]["key"] for event in events(live)]
    assert keys == ["钟", "钟"]
    assert all(live("GET", e["ledger"], tenant=None).status_code == 200 for e in events(live))


def test_of_very_many_entries_some_are_only_counted() -> None:
    answer = turn([constant(f"e{number}", position=number % 2) for number in range(510)], "钟")
    occasion = Occasion(prompt_id="p", source="replica")
    told = SelectionContext(tenant_id="demo", occasion=occasion, at="", ledger=None)
    event = json.loads(of_replica(answer, {"b": "book 1"}, told).to_json())
    assert sum(len(group["entries"]) for group in event["groups"]) == 300
    stats = event["stats"]
    assert (stats["total"], stats["unlisted"], stats["by_reason"]) == (510, 210, {"constant": 510})
    assert [each["count"] for each in stats["by_position"]] == [255, 255]


def test_replica_is_told_in_the_order_of_the_prompt_with_its_labels() -> None:
    answer = turn(
        [
            constant("a", position=0, comment="甲 🏮"),
            constant("b", position=6, depth=3, role=2),
            constant("c", position=5),
            keyed("d", "钟", position=4, content="字" * 200),
            constant("e", position=1),
        ],
        "钟",
    )
    occasion = Occasion(prompt_id="p", source="replica", conversation_id="c")
    told = SelectionContext(
        tenant_id="demo", occasion=occasion, at="2026-03-01T12:00:00.000000Z", ledger=None
    )
    event = json.loads(of_replica(answer, {"b": "book 1"}, told).to_json())
    assert places(event) == [
        (5, ["c"]),
        (1, ["e"]),
        (0, ["a"]),
        (6, 3, "assistant", ["b"]),
        (4, ["d"]),
    ]
    assert [group["label"] for group in event["groups"]][:2] == ["作为系统消息", "角色定义之前"]
    assert event["groups"][2]["entries"][0]["title"] == "甲 🏮"
    assert event["groups"][2]["entries"][0]["book_id"] == "book 1"
    assert len(event["groups"][4]["entries"][0]["preview"]) == PREVIEW_CHARS
    stats = event["stats"]
    # As that policy counts (docs/rules/replica.md §6.1).
    own = json.loads(answer.to_json())["stats"]
    assert stats["by_position"] == own["by_position"]
    assert stats["by_reason"] == own["by_trigger"]
    assert (stats["total"], stats["tokens"], stats["token_budget"]) == (5, None, None)
    assert isinstance(of_replica(answer, {"b": "book 1"}, told), LiveSelection)


def test_a_turn_of_a_conversation_says_where_its_state_came_from(live: Api) -> None:
    world(live)
    for name, texts in (
        ("c", ["a", "b"]),
        ("c", ["a", "b", "c"]),
        ("c", ["x", "y"]),
        (None, ["x"]),
    ):
        chat = [{"content": each} for each in texts]
        body = {"chat": chat, "context_tokens": 1_000, **PROMPT, "conversation_id": name}
        assert live("POST", "/v1/sillytavern/activate", json=body).status_code == 200
    found = events(live)
    assert [each.get("continued") for each in found] == ["none", "kept", "lost", None]
    assert "continued" not in found[-1]
