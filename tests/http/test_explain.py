"""Explanations over HTTP."""

from __future__ import annotations

import pytest

from service import UNKNOWN_BOOK, Api, Json, code, places


def explain(api: Api, entry: object, query: str = "the lamp", **fields: object) -> Json:
    request = {"books": [{"book_id": api.create()}], "query": query, **fields}
    return api("POST", "/v1/context/explain", json={"request": request, "entry": entry})


def test_an_entry_of_a_stored_book_is_explained(api: Api) -> None:
    answer = explain(api, "lamp", "nothing")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["policy"], found["selected"], found["gate"]) == ("native", False, "keys")
    assert found["complete"] is True
    assert found["changes"][0]["edits"]


def test_inline_and_changed_books_are_explained_as_previewed(api: Api) -> None:
    lamp = {"id": "lamp", "content": "A lamp.", "keys": ["Lamp"], "case_sensitive": True}
    inline = {"book": {"name": "B", "entries": [lamp]}}
    request = {"books": [inline], "query": "the lamp"}
    body = {"request": request, "entry": "lamp"}
    found = api("POST", "/v1/context/explain", json=body).json()
    assert [miss["kind"] for miss in found["near"]] == ["case"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"entry": "nobody"}, "/entry"),
        ({"entry": ""}, "/entry"),
        ({"entry": {"book_id": "b"}}, "/entry"),
        ({"budget": -1}, "/budget"),
        ({"budget": 2_000_001}, "/budget"),
        ({"budget": 1.5}, "/budget"),
        ({"colour": 1}, "/colour"),
        ({"request": {"books": [], "query": "q"}}, "/request/books"),
    ],
)
def test_invalid_questions_name_the_place(api: Api, change: Json, expected: str) -> None:
    request = {"books": [{"book_id": api.create()}], "query": "the lamp"}
    body = {"request": request, "entry": "lamp", **change}
    answer = api("POST", "/v1/context/explain", json=body)
    assert answer.status_code == 422
    assert any(place.startswith(expected) for place in places(answer))


def test_missing_books_are_reported(api: Api) -> None:
    body = {"request": {"books": [{"book_id": UNKNOWN_BOOK}], "query": "q"}, "entry": "lamp"}
    answer = api("POST", "/v1/context/explain", json=body)
    assert (answer.status_code, code(answer)) == (404, "book_not_found")


def test_an_entry_is_explained_under_the_rules_of_sillytavern(api: Api) -> None:
    lamp = {"uid": 0, "key": ["lamp"], "content": "It burns.", "disable": True}
    book = {"source": "chat", "name": "Harbour", "entries": {"0": lamp}}
    request = {"books": [book], "chat": [{"content": "the lamp"}], "context_tokens": 4000}
    body = {"request": request, "entry": {"book_id": "Harbour", "entry_id": "0"}}
    answer = api("POST", "/v1/sillytavern/explain", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["policy"], found["id"], found["gate"]) == ("sillytavern", "Harbour.0", "enabled")
    assert [edit["path"] for edit in found["changes"][0]["edits"]] == ["/disable"]
    stored = {"source": "global", "book_id": api.create()}
    request = {"books": [stored], "chat": [{"content": "nothing"}], "context_tokens": 4000}
    body = {"request": request, "entry": "lamp"}
    assert api("POST", "/v1/sillytavern/explain", json=body).json()["reason"] == "not_triggered"
    missing = api("POST", "/v1/sillytavern/explain", json={**body, "entry": "nobody"})
    assert (missing.status_code, places(missing)) == (422, ["/entry"])


def test_an_entry_is_explained_under_the_rules_of_sillytavern_replica(api: Api) -> None:
    book = {"name": "b", "entries": [{"uid": "t", "key": ["灯塔"], "content": "x"}]}
    data = {"globalBooks": [{"id": "b"}]}
    request = {"worldBookData": data, "books": {"b": book}, "mes": "灯 塔"}
    answer = api("POST", "/v1/replica/explain", json={"request": request, "entry": "t"})
    assert answer.status_code == 200
    found = answer.json()
    assert (found["policy"], found["id"], found["gate"]) == ("replica", "b.t", "trigger")
    assert found["changes"]
    stored = {"worldBookData": {"globalBooks": [{"id": api.create()}]}, "mes": "a lamp"}
    body = {"request": stored, "entry": "lamp"}
    assert api("POST", "/v1/replica/explain", json=body).json()["selected"] is True
    missing = api("POST", "/v1/replica/explain", json={**body, "entry": "nobody"})
    assert (missing.status_code, places(missing)) == (422, ["/entry"])
