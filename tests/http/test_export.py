"""Books over HTTP as files of other programs."""

from __future__ import annotations

import json

import pytest

from service import BOOK, UNKNOWN_BOOK, Api, code, places

WORLD = {
    "entries": {"k": {"uid": 3, "key": ["lamp"], "content": "灯", "order": "9", "big": 10**30}}
}


def imported(api: Api, name: str = "harbour.json") -> str:
    file = (name, json.dumps(WORLD).encode(), "application/json")
    answer = api("POST", "/v1/imports/files", files={"files": file})
    book_id: str = answer.json()["books"][0]["book_id"]
    return book_id


def test_imported_world_comes_back(api: Api) -> None:
    book_id = imported(api)
    answer = api("GET", f"/v1/books/{book_id}/export", params={"format": "st_world"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == WORLD


@pytest.mark.parametrize("word", ["native", "st_world", "character_book", "lorebook_v3", "replica"])
def test_each_format_can_be_had(api: Api, word: str) -> None:
    book_id = api.create()
    document = api("GET", f"/v1/books/{book_id}/export", params={"format": word}).json()
    entries = document.get("data", document)["entries"]
    (entry,) = entries.values() if isinstance(entries, dict) else entries
    assert entry["content"] == "A lamp."


def test_revision_can_be_chosen(api: Api) -> None:
    book_id = api.create()
    new = {**BOOK, "name": 'Ha"r\nbour/灯'}
    body = {**new, "expected_revision": 1}
    assert api("POST", f"/v1/books/{book_id}/revisions", json=body).status_code == 201
    path, asked = f"/v1/books/{book_id}/export", {"format": "native"}
    first = api("GET", path, params={**asked, "revision": "1"})
    assert first.json()["name"] == BOOK["name"]
    latest = api("GET", path, params=asked)
    assert latest.json()["name"] == new["name"]
    assert latest.headers["content-disposition"] == (
        "attachment; filename=\"Ha_r_bour_.json\"; filename*=UTF-8''Ha%22r_bour%2F%E7%81%AF.json"
    )


@pytest.mark.parametrize(
    ("asked", "status", "word", "place"),
    [
        ({}, 422, "validation_error", ["format"]),
        ({"format": "yaml"}, 422, "validation_error", ["format"]),
        ({"format": "native", "revision": "0"}, 422, "validation_error", ["revision"]),
        ({"format": "native", "revision": "2"}, 404, "revision_not_found", []),
    ],
)
def test_what_cant_be_had_is_refused(
    api: Api, asked: dict[str, str], status: int, word: str, place: list[str]
) -> None:
    answer = api("GET", f"/v1/books/{api.create()}/export", params=asked)
    assert (answer.status_code, code(answer)) == (status, word)
    assert not place or places(answer) == place


def test_books_of_others_are_not_there(api: Api) -> None:
    book_id = api.create(tenant="other")
    for name in (book_id, UNKNOWN_BOOK, "x"):
        answer = api("GET", f"/v1/books/{name}/export", params={"format": "native"})
        assert (answer.status_code, code(answer)) == (404, "book_not_found")
