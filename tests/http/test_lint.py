"""`POST /v1/lint`: stored, inline and changed books, requests, and problems."""

from __future__ import annotations

from typing import Any

from service import Api, places

ODD = {
    "name": "Harbour",
    "entries": [
        {"id": "tower", "content": "守塔人从不入睡。", "keys": ["灯塔，灯室"]},
        {"id": "lamp", "content": "{{user}} lights it.", "keys": ["lamp"], "probability": 0},
    ],
}


def linted(api: Api, book: Any, **fields: Any) -> list[dict[str, Any]]:
    answer = api("POST", "/v1/lint", json={"book": book, **fields})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["findings"]
    for each in found:
        assert {"code", "entry_id", "entries", "pointer", "severity"} <= each.keys()
    return found


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [each["code"] for each in found]


def stored(api: Api) -> str:
    created = api("POST", "/v1/books", json=ODD).json()
    book_id: str = created["books"][0]["book_id"]
    return book_id


def test_an_inline_book_is_linted(api: Api) -> None:
    found = linted(api, {"book": ODD})
    assert codes(found) == ["LW003", "LW501"]
    assert found[0]["pointer"] == "/entries/0/keys/0"
    assert found[0]["span"] == [2, 3]
    patch = {"op": "replace", "path": "/entries/0/keys", "value": ["灯塔", "灯室"]}
    assert found[0]["fixes"] == [{"label": "Split the key", "patch": [patch]}]


def test_a_stored_book_and_its_changes_are_linted(api: Api) -> None:
    book_id = stored(api)
    assert codes(linted(api, {"book_id": book_id})) == ["LW003", "LW501"]
    lamp = {**ODD["entries"][1], "probability": 5}
    changed = {"book_id": book_id, "changes": [lamp], "removed": ["tower"]}
    assert linted(api, changed) == []


def test_a_request_says_what_depends_on_one(api: Api) -> None:
    request = {"template_vars": {"char": "Mira"}, "token_budget": 60}
    found = linted(api, {"book": ODD}, select=["LW6", "LW7"], **{"with": request})
    assert codes(found) == ["LW604", "LW702"]
    scene = {"settings": {"world_info_recursive": False}, "context_tokens": 100}
    found = linted(api, {"book": ODD}, policy="sillytavern", select=["LW7"], **{"with": scene})
    assert codes(found) == []


def test_other_books_of_the_request_are_compared(api: Api) -> None:
    request = {"books": [{"book_id": stored(api)}]}
    twin = {"id": "twin", "content": "Another lamp.", "keys": ["lamp"]}
    found = linted(api, {"book": {"name": "B", "entries": [twin]}}, **{"with": request})
    assert codes(found) == []  # the other one never fires
    twin = {**twin, "content": "守塔人从不入睡。"}
    found = linted(api, {"book": {"name": "B", "entries": [twin]}}, **{"with": request})
    assert codes(found) == ["LW602"]


def test_problems_are_named(api: Api) -> None:
    def problem(**body: Any) -> Any:
        return api("POST", "/v1/lint", json=body)

    missing = "11111111-1111-4111-8111-111111111111"
    assert problem(book={"book_id": missing}).json()["code"] == "book_not_found"
    assert places(problem(book={"book": ODD}, select=["LX"])) == ["/select/0"]
    faulty = problem(book={"book": ODD}, **{"with": {"token_budget": -1}})
    assert places(faulty) == ["/with/token_budget"]
    changed = {"book_id": stored(api), "removed": ["nobody"]}
    assert places(problem(book=changed)) == ["/book/removed/0"]
