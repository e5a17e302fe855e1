"""Vector entries under the policy `sillytavern`: what is near to the chat is activated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from embedding import TinyEmbedder, embed
from service import Api, Json, serving

ENTRIES = {
    "0": {
        "uid": 0,
        "key": ["zzz"],
        "content": "The lighthouse burns whale oil.",
        "vectorized": True,
        "position": 0,
    },
    "1": {"uid": 1, "key": ["zzz"], "content": "The lighthouse burns whale oil.", "position": 1},
    "2": {
        "uid": 2,
        "key": ["zzz"],
        "content": "海上的灯塔烧着鲸油。",
        "vectorized": True,
        "position": 0,
    },
    "3": {
        "uid": 3,
        "key": ["zzz"],
        "content": "Whale oil burns in the lighthouse.",
        "vectorized": True,
        "disable": True,
        "position": 0,
    },
    "4": {"uid": 4, "key": ["zzz"], "content": "Lighthouse keepers burn whale oil.", "position": 0},
}
NEAR = "the lighthouse burns whale oil"


@pytest.fixture
def embedder() -> TinyEmbedder:
    return TinyEmbedder()


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, database: str, embedder: TinyEmbedder) -> Iterator[Api]:
    url = database
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    with serving(with_embedder=embedder, database_url=url) as api:
        yield api


def import_world(api: Api, entries: Json = ENTRIES) -> str:
    body = {"entries": entries}
    file = ("雾.json", json.dumps(body).encode(), "application/json")
    answer = api("POST", "/v1/imports/files", files=[("files", file)])
    assert answer.status_code == 201, answer.text
    return str(answer.json()["books"][0]["book_id"])


def build(api: Api, book_id: str) -> None:
    answer = api("POST", f"/v1/books/{book_id}/index", json={"revision": 1})
    assert answer.json()["status"] == "ready", answer.text


def activate(api: Api, *books: Json, said: tuple[str, ...] = (NEAR,), **fields: Any) -> Json:
    body = {
        "books": list(books),
        "chat": [{"name": "User", "content": text} for text in said],
        "context_tokens": 8000,
        "vectors": {},
        **fields,
    }
    answer = api("POST", "/v1/sillytavern/activate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(found: Json) -> list[str]:
    return [each["id"].rpartition(".")[2] for each in found["activated"]]


def test_what_is_near_is_activated_with_all_that_have_its_content(
    api: Api, embedder: TinyEmbedder
) -> None:
    book_id = import_world(api)
    build(api, book_id)
    found = activate(api, {"book_id": book_id})
    assert sorted(ids(found)) == ["0", "1"]  # 1 is not marked, but says the same
    assert {each["reason"] for each in found["activated"]} == {"external"}
    used = found["vectors"]
    expected = float(embed(NEAR) @ embed(ENTRIES["0"]["content"]))
    assert [(each["id"][-1], each["rank"]) for each in used["entries"]] == [("0", 1), ("1", 1)]
    assert used["entries"][0]["similarity"] == pytest.approx(expected, abs=2e-6)
    assert used["degraded"] == []
    assert used["embedding_version"].startswith("tiny/1")
    assert embedder.queries == [NEAR]


def test_without_vectors_nothing_is_embedded(api: Api, embedder: TinyEmbedder) -> None:
    book_id = import_world(api)
    build(api, book_id)
    body = {"books": [{"book_id": book_id}], "chat": [], "context_tokens": 99}
    found = api("POST", "/v1/sillytavern/activate", json=body).json()
    assert found["vectors"] is None
    assert embedder.queries == []


def test_settings_of_the_search(api: Api, embedder: TinyEmbedder) -> None:
    book_id = import_world(api)
    build(api, book_id)
    book = {"book_id": book_id}
    everything = activate(api, book, vectors={"all_entries": True, "max_entries": 1})
    assert [each["rank"] for each in everything["vectors"]["entries"]] == [1, 1]
    everything = activate(api, book, vectors={"all_entries": True, "threshold": 0.3})
    assert {"0", "1", "4"} <= set(ids(everything))
    assert ids(activate(api, book, vectors={"threshold": 1})) == []
    far = activate(api, book, said=(NEAR, "潮", "雾"))
    assert ids(far) == []
    assert embedder.queries[-1] == "潮\n雾"
    assert sorted(ids(activate(api, book, said=(NEAR, "潮"), vectors={"messages": 2}))) == [
        "0",
        "1",
    ]


def test_a_book_without_an_index_is_named_if_it_has_such_entries(
    api: Api, embedder: TinyEmbedder
) -> None:
    first, second = import_world(api), import_world(api, {"7": {**ENTRIES["2"], "uid": 7}})
    plain = import_world(api, {"9": {**ENTRIES["4"], "uid": 9}})
    books = [{"book_id": each} for each in (first, second, plain)]
    found = activate(api, *books)
    missing = sorted(f"index_not_ready:{each}:1" for each in (first, second))
    assert (found["vectors"]["degraded"], ids(found)) == (missing, [])
    assert embedder.queries == []
    build(api, first)
    found = activate(api, *books)
    assert found["vectors"]["degraded"] == [f"index_not_ready:{second}:1"]
    assert sorted(ids(found)) == ["0", "1"]
    inline = activate(api, {"name": "随身", "entries": {"0": ENTRIES["0"]}})
    assert inline["vectors"]["degraded"] == ["index_not_ready:随身"]


def test_an_embedder_that_fails_degrades(api: Api, embedder: TinyEmbedder) -> None:
    book_id = import_world(api)
    build(api, book_id)
    embedder.fails = "down"
    found = activate(api, {"book_id": book_id})
    assert found["vectors"]["degraded"] == ["embedding_unavailable"]
    assert ids(found) == []


def test_without_an_embedder_the_answer_says_so(database: str) -> None:
    with serving(database_url=database) as api:
        found = activate(api, {"book_id": import_world(api)})
        assert found["vectors"] == {
            "entries": [],
            "degraded": ["vector_disabled"],
            "embedding_version": None,
        }


def test_what_the_request_forces_goes_before_what_vectors_found(api: Api) -> None:
    book_id = import_world(api)
    build(api, book_id)
    found = activate(api, {"book_id": book_id})
    name = next(each["id"] for each in found["activated"] if each["id"].endswith("0"))
    forced = [{"ref": name, "override": {"content": "Said otherwise."}}]
    again = activate(api, {"book_id": book_id}, forced=forced)
    assert "Said otherwise." in again["world_info_before"]


def test_bound_books_are_searched_and_a_silent_chat_is_not(
    api: Api, embedder: TinyEmbedder
) -> None:
    book_id = import_world(api)
    build(api, book_id)
    bound = {"bindings": [{"book_id": book_id}]}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": "p"}, json=bound)
    assert sorted(ids(activate(api, prompt_id="p"))) == ["0", "1"]
    assert ids(activate(api, prompt_id="p", said=(" ", ""))) == []
    assert embedder.queries == [NEAR]
