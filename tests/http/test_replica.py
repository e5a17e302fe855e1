"""The rules of SillyTavern_replica over HTTP: spec/replica.md §6.2, and §10 as far as it touches.

Cases of one turn, without a service, are in tests/golden/test_acceptance_replica.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from replica_books import conditional, constant, keyed
from service import UNKNOWN_BOOK, Api, Json, code, places, serving

ACTIVATE = "/v1/replica/activate"
PREVIEW = "/v1/replica/preview"
KEPT = "/v1/replica/activations/"
PROMPT = {"prompt_id": "场景 1"}

GLOBAL = [
    constant("g1", position=0, order=100, content="Lamps burn oil."),
    keyed("g2", "灯塔", position=4, order=50),
    keyed("g3", "king", settings={"matchWholeWords": True}, position=0, order=10),
]
CHARACTER = [
    conditional("c1", "tb.力量 > 10", 'tb.态度 包括 "友好"', position=4, order=20),
    constant("c2", disable=True),
    constant("c3", position="1"),
]
TABLE = {"力量": 15, "态度": "很友好"}


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, database: str) -> Iterator[Api]:
    url = database
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    with serving(database_url=url) as api:
        yield api


def keep(api: Api, entries: Sequence[Json], name: str = "雾隐渡") -> str:
    """Store a world of that program and return its id."""
    world = {"name": name, "entries": list(entries)}
    file = (f"{name}.json", json.dumps(world).encode())
    answer = api("POST", "/v1/imports/files", files=[("files", file)])
    assert answer.status_code == 201, answer.text
    return str(answer.json()["books"][0]["book_id"])


def turn(*global_books: str, character: str | None = None, **members: Any) -> Json:
    books = {"globalBooks": [{"id": each} for each in global_books], "characterBookId": character}
    return {"worldBookData": books, **members}


def told(api: Api, *global_books: str, **members: Any) -> Json:
    """Return the answer to a turn."""
    answer = api("POST", ACTIVATE, json=turn(*global_books, **members))
    assert answer.status_code == 200, answer.text
    return answer.json()


def active(answer: Json) -> list[str]:
    return [entry["uid"] for entry in answer["entries"]]


def warned(answer: Json) -> list[tuple[str, str | None]]:
    return [(each["code"], each.get("book_id")) for each in answer["warnings"]]


def bind(api: Api, *book_ids: str, policy: str = "replica") -> None:
    bindings = [{"book_id": book_id} for book_id in book_ids]
    body = {"bindings": bindings, "policy": policy}
    answer = api("PUT", "/v1/prompt-bindings", params=PROMPT, json=body)
    assert answer.status_code == 200, answer.text


def test_41_example_of_stored_books(api: Api) -> None:
    g, c = keep(api, GLOBAL, "G"), keep(api, CHARACTER, "C")
    scene = {
        "mes": "去灯塔看看",
        "chatHistory": ["The kingdom sleeps."],
        "dynamicTableData": {"currentValues": TABLE},
    }
    answer = told(api, g, character=c, **scene)
    assert active(answer) == ["g1", "c3", "c1", "g2"]
    assert answer["stats"] == {
        "total": 4,
        "by_position": [
            {"position": 0, "label": "角色定义之后", "count": 1},
            {"position": 1, "label": "角色定义之前", "count": 1},
            {"position": 4, "label": "系统提示/作者注释", "count": 2},
        ],
        "by_trigger": {"constant": 2, "keyword": 1, "condition": 1},
    }
    assert [(each["book_id"], each["source"]) for each in answer["entries"]] == [
        *((g, "global"), (c, "character"), (c, "character"), (g, "global")),
    ]
    assert [(each["book_id"], each["revision"]) for each in answer["snapshot"]] == [(g, 1), (c, 1)]
    weak = {**scene, "dynamicTableData": {"currentValues": {**TABLE, "力量": 10}}}
    assert active(told(api, g, character=c, **weak)) == ["g1", "c3", "g2"]


def test_20_book_that_is_global_and_the_characters_is_loaded_once(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    for name in (book_id, book_id.upper(), "雾隐渡"):
        answer = told(api, book_id, character=name)
        assert [(each["id"], each["source"]) for each in answer["books"]] == [(book_id, "global")]
        assert warned(answer) == []


def test_21_missing_book_is_a_warning(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    answer = told(api, UNKNOWN_BOOK, book_id, character="灯 7", mes="灯塔")
    assert active(answer) == ["g1", "g2"]
    assert warned(answer) == [("book_not_found", UNKNOWN_BOOK), ("book_not_found", "灯 7")]
    assert api("DELETE", f"/v1/books/{book_id}").status_code == 204
    assert warned(told(api, book_id, "雾隐渡"))[0] == ("book_not_found", book_id)


def test_22_characters_book_is_for_that_character_alone(api: Api) -> None:
    g, c = keep(api, GLOBAL, "G"), keep(api, CHARACTER, "C")
    assert active(told(api, g, character=c)) == ["g1", "c3"]
    assert active(told(api, g)) == ["g1"]


def test_23_sums_are_the_total(api: Api) -> None:
    stats = told(api, keep(api, [*GLOBAL, *CHARACTER]), mes="灯塔 king")["stats"]
    assert stats["total"] == sum(each["count"] for each in stats["by_position"]) == 4
    assert stats["total"] == sum(stats["by_trigger"].values())


def test_3_history_is_read_in_both_forms(api: Api) -> None:
    book_id = keep(api, [keyed("a", "灯塔"), keyed("b", "หมอก"), keyed("c", "mole")])
    history = ["去灯塔", {"mes": "หมอกลง 🌫️"}, {"content": "the mole", "role": "user"}]
    answer = told(api, book_id, mes="x", chatHistory=history)
    facts = {each["uid"]: each["facts"] for each in answer["decisions"]}
    assert {uid: each["message"] for uid, each in facts.items()} == {"a": 0, "b": 1, "c": 2}


def test_name_stands_for_the_book_of_that_name_changed_last(api: Api) -> None:
    first = keep(api, [constant("old")], "同名")
    second = keep(api, [constant("new")], "同名")
    answer = told(api, character="同名")
    assert active(answer) == ["new"]
    assert answer["books"][0]["id"] == "同名"
    assert answer["snapshot"][0]["book_id"] == second
    by_name = {"worldBookData": {"globalBooks": [{"name": "同名"}]}}
    assert active(api("POST", ACTIVATE, json=by_name).json()) == ["new"]
    assert active(told(api, first)) == ["old"]
    assert active(told(api, "同")) == []  # the whole name, letter by letter


def test_given_book_wins_over_the_stored_one(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    given = {book_id: {"entries": {"7": {"key": ["灯"], "content": "x", "position": 4}}}}
    answer = told(api, book_id, books=given, mes="灯塔")
    assert active(answer) == ["7"]
    assert (answer["snapshot"], answer["activation_id"]) == ([], None)


def test_nulls_count_as_missing(api: Api) -> None:
    members = ("worldBookData", "mes", "chatHistory", "dynamicTableData", "seed", "books")
    answer = api("POST", ACTIVATE, json={**dict.fromkeys(members), "future": {"x": 1}})
    assert (answer.status_code, answer.json()["entries"]) == (200, [])
    half = {"worldBookData": {"globalBooks": None}, "dynamicTableData": {"currentValues": None}}
    assert api("POST", ACTIVATE, json=half).status_code == 200


WRONG: list[tuple[Json, str]] = [
    ({"mes": 7}, "/mes"),
    ({"chatHistory": "x"}, "/chatHistory"),
    ({"chatHistory": ["x", 7]}, "/chatHistory/1"),
    ({"chatHistory": [{"mes": ["x"]}]}, "/chatHistory/0"),
    ({"worldBookData": []}, "/worldBookData"),
    ({"worldBookData": {"globalBooks": [7]}}, "/worldBookData/globalBooks/0"),
    ({"worldBookData": {"globalBooks": [{}]}}, "/worldBookData/globalBooks/0/id"),
    ({"worldBookData": {"characterBookId": 7}}, "/worldBookData/characterBookId"),
    ({"dynamicTableData": {"currentValues": [1]}}, "/dynamicTableData/currentValues"),
    ({"books": []}, "/books"),
    ({"explain": "much"}, "/explain"),
    ({"prompt_id": ""}, "/prompt_id"),
    ({"char": "a\x00"}, "/char"),
]


def test_wrong_types_are_named(database: str) -> None:
    with serving(database_url=database) as api:
        for route in (ACTIVATE, PREVIEW):
            for body, place in WRONG:
                answer = api("POST", route, json=body)
                assert (code(answer), places(answer)) == ("validation_error", [place])
                assert answer.status_code == 422
