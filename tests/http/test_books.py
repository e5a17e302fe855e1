"""Books and revisions over HTTP: what each route gives, and every way in which it refuses."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from service import BOOK, UNKNOWN_BOOK, Api, code, places, serving

NEXT = {"name": "Harbour", "entries": [{"id": "mole", "content": "A mole.", "keys": ["mole"]}]}


def test_a_book_is_stored_as_revision_one(api: Api) -> None:
    answer = api("POST", "/v1/books", json=BOOK)
    assert answer.status_code == 201
    assert answer.json()["replayed"] is False
    (made,) = answer.json()["books"]
    assert made["revision"] == 1
    assert made["deduplicated"] is False
    assert made["import_report"] == {"format": "native", "entry_count": 1}
    stored = api("GET", f"/v1/books/{made['book_id']}").json()
    assert stored["book"]["latest_revision"] == 1
    assert stored["revision"]["entries"][0]["content"] == "A lamp."
    assert stored["revision"]["entries"][0]["position"] == "before_character"  # defaults written


def test_an_id_may_be_in_upper_case(api: Api) -> None:
    book_id = api.create()
    assert api("GET", f"/v1/books/{book_id.upper()}").json()["book"]["book_id"] == book_id


def test_without_a_key_each_request_makes_a_book(api: Api) -> None:
    assert api.create() != api.create()
    assert len(api("GET", "/v1/books").json()["books"]) == 2


def test_a_key_makes_one_book_even_after_a_restart(database: str) -> None:
    key = {"Idempotency-Key": "once"}
    with serving(database_url=database) as api:
        first = api("POST", "/v1/books", json=BOOK, headers=key)
        other = api("POST", "/v1/books", json=BOOK, headers=key, tenant="other")
        assert (first.status_code, other.status_code) == (201, 201)
    with serving(database_url=database) as api:
        second = api("POST", "/v1/books", json=BOOK, headers=key)
        assert second.status_code == 200
        assert second.json() == {**first.json(), "replayed": True}
        assert code(api("POST", "/v1/books", json=NEXT, headers=key)) == "idempotency_conflict"
        assert len(api("GET", "/v1/books").json()["books"]) == 1


@pytest.mark.parametrize("key", ["", "k" * 201, "käse", "tab\there"])
def test_a_key_is_printable_ascii(api: Api, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = api("POST", "/v1/books", json=BOOK, headers=headers)
    assert code(answer) == "validation_error"
    assert places(answer) == ["Idempotency-Key"]


def test_faults_are_named_by_their_place(api: Api) -> None:
    book = {"name": "", "colour": 1, "entries": [{"content": 7}, {"content": "a\x00"}]}
    answer = api("POST", "/v1/books", json=book)
    assert answer.status_code == 422
    assert places(answer) == ["/name", "/entries/0/content", "/entries/1/content", "/colour"]
    assert places(api("POST", "/v1/books", json={**BOOK, "tenant_id": "x"})) == ["/tenant_id"]


def test_requires_is_checked(api: Api) -> None:
    book = {"name": "B", "entries": [{"id": "a", "content": "x", "requires": ["b"]}]}
    assert code(api("POST", "/v1/books", json=book)) == "invalid_dependency"
    assert api("GET", "/v1/books").json() == {"books": [], "next_cursor": None}


def test_books_are_listed_last_changed_first_and_in_pages(api: Api) -> None:
    made = [api.create({"name": name}) for name in ("Inn", "Harbour", "Inner court")]
    api.publish(made[0], 1, {"name": "Inn"})
    seen, cursor = [], None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = api("GET", "/v1/books", params=params).json()
        seen += [head["book_id"] for head in page["books"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [made[0], made[2], made[1]]
    named = api("GET", "/v1/books", params={"q": "Inn"}).json()["books"]
    assert [head["name"] for head in named] == ["Inn", "Inner court"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "201"),
        ("limit", "1.0"),
        ("limit", ""),
        ("limit", "9" * 5000),
        ("cursor", "nonsense"),
        ("include_deleted", "yes"),
        ("tenant_id", ""),
        ("tenant_id", "a b"),
        ("tenant_id", "a" * 101),
        ("tenant_id", "a\n"),
    ],
)
def test_a_bad_parameter_is_named(api: Api, name: str, value: str) -> None:
    answer = api("GET", "/v1/books", params={name: value})
    assert code(answer) == "validation_error"
    assert places(answer) == [name]


def test_the_tenant_must_be_given(api: Api) -> None:
    answer = api("GET", "/v1/books", tenant=None)
    assert (answer.status_code, places(answer)) == (422, ["tenant_id"])


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("tenant_id=a&tenant_id=b", "tenant_id"),
        ("tenant_id=a&q=%00", "q"),
        ("tenant_id=a&q=%ED%A0%80", "q"),
        ("tenant_id=a&q=%FF", "q"),
        ("tenant_id=a&nobody=%00", "nobody"),
    ],
)
def test_odd_text_in_the_query_is_refused(api: Api, query: str, place: str) -> None:
    answer = api("GET", f"/v1/books?{query}", tenant=None)
    assert (answer.status_code, places(answer)) == (422, [place])


def test_unknown_parameters_are_ignored(api: Api) -> None:
    assert api("GET", "/v1/books?tenant_id=a&x=1&x=2", tenant=None).status_code == 200


@pytest.mark.parametrize("revision", ["0", "-1", "99999999999999999999", "9" * 5000, "x", "1.0"])
def test_a_revision_out_of_range_is_refused(api: Api, revision: str) -> None:
    book_id = api.create()
    answer = api("GET", f"/v1/books/{book_id}", params={"revision": revision})
    assert places(answer) == ["revision"]


def test_integers_of_any_size_in_a_body_are_answered(api: Api) -> None:
    book_id = api.create()
    body = '{"expected_revision": %s, "name": "B"}'
    for digits in ("9" * 20, "9" * 4300):
        answer = api(
            "POST",
            f"/v1/books/{book_id}/revisions",
            content=body % digits,
            headers={"Content-Type": "application/json"},
        )
        assert code(answer) == "revision_conflict"


@pytest.mark.parametrize("book_id", [UNKNOWN_BOOK, "nothing", "%00", "a" * 300, "%ED%A0%80"])
def test_an_unknown_book_is_not_found_whatever_its_id(api: Api, book_id: str) -> None:
    for method, rest in (("GET", ""), ("GET", "/revisions"), ("DELETE", ""), ("POST", "/restore")):
        assert code(api(method, f"/v1/books/{book_id}{rest}")) == "book_not_found"


def test_a_revision_follows_the_expected_one(api: Api) -> None:
    book_id = api.create()
    before = api("GET", f"/v1/books/{book_id}", params={"revision": "1"}).json()["revision"]
    published = api.publish(book_id, 1, NEXT)
    assert (published["revision"], published["entry_count"]) == (2, 1)
    after = api("GET", f"/v1/books/{book_id}").json()["revision"]
    assert [entry["id"] for entry in after["entries"]] == ["mole"]
    again = api("GET", f"/v1/books/{book_id}", params={"revision": "1"}).json()["revision"]
    assert again == before
    late = api("POST", f"/v1/books/{book_id}/revisions", json={**NEXT, "expected_revision": 1})
    assert code(late) == "revision_conflict"
    assert late.json()["details"] == {"expected": 1, "actual": 2}
    missing = api("GET", f"/v1/books/{book_id}", params={"revision": "3"})
    assert code(missing) == "revision_not_found"


def test_publishing_takes_a_key(api: Api) -> None:
    book_id, key = api.create(), {"Idempotency-Key": "k"}
    path, body = f"/v1/books/{book_id}/revisions", {**NEXT, "expected_revision": 1}
    assert api("POST", path, json=body, headers=key).status_code == 201
    replay = api("POST", path, json=body, headers=key)
    assert (replay.status_code, replay.json()["replayed"]) == (200, True)
    other = api("POST", path, json={**body, "name": "Else"}, headers=key)
    assert code(other) == "idempotency_conflict"


def test_publishing_is_refused_like_creating(api: Api) -> None:
    path = f"/v1/books/{api.create()}/revisions"
    assert places(api("POST", path, json=NEXT)) == ["/expected_revision"]
    entry = {"id": "a", "content": "x", "requires": ["a"]}
    broken = {"name": "B", "entries": [entry], "expected_revision": 1}
    assert code(api("POST", path, json=broken)) == "invalid_dependency"
    unknown = f"/v1/books/{UNKNOWN_BOOK}/revisions"
    assert code(api("POST", unknown, json={**NEXT, "expected_revision": 1})) == "book_not_found"


def test_revisions_are_listed_newest_first_and_in_pages(api: Api) -> None:
    book_id = api.create()
    for number in (1, 2):
        api.publish(book_id, number)
    path = f"/v1/books/{book_id}/revisions"
    first = api("GET", path, params={"limit": "2"}).json()
    assert [row["revision"] for row in first["revisions"]] == [3, 2]
    assert "entries" not in first["revisions"][0]
    second = api("GET", path, params={"limit": "2", "cursor": first["next_cursor"]}).json()
    assert [row["revision"] for row in second["revisions"]] == [1]
    assert second["next_cursor"] is None
    assert places(api("GET", path, params={"cursor": "9" * 30})) == ["cursor"]


def test_revisions_are_compared(api: Api) -> None:
    book_id = api.create()
    api.publish(book_id, 1, NEXT)
    path = f"/v1/books/{book_id}/diff"
    answer = api("GET", path, params={"from": "1", "to": "2"}).json()
    assert answer == {"added": ["mole"], "removed": ["lamp"], "changed": [], "book_fields": []}
    assert code(api("GET", path, params={"from": "1", "to": "3"})) == "revision_not_found"
    assert places(api("GET", path)) == ["from", "to"]
    unknown = f"/v1/books/{UNKNOWN_BOOK}/diff"
    assert code(api("GET", unknown, params={"from": "1", "to": "2"})) == "book_not_found"


def test_an_old_revision_is_stored_again(api: Api) -> None:
    book_id, key = api.create(), {"Idempotency-Key": "back"}
    api.publish(book_id, 1, NEXT)
    path, body = f"/v1/books/{book_id}/revisions/1/restore", {"expected_revision": 2}
    restored = api("POST", path, json=body, headers=key)
    assert (restored.status_code, restored.json()["revision"]) == (201, 3)
    replay = api("POST", path, json=body, headers=key)
    assert (replay.status_code, replay.json()["replayed"]) == (200, True)
    other = api("POST", path, json={"expected_revision": 3}, headers=key)
    assert code(other) == "idempotency_conflict"
    assert code(api("POST", path, json=body)) == "revision_conflict"
    missing = path.replace("/1/", "/9/")
    assert code(api("POST", missing, json={"expected_revision": 3})) == "revision_not_found"
    unknown = path.replace(book_id, UNKNOWN_BOOK)
    assert code(api("POST", unknown, json=body)) == "book_not_found"
    assert places(api("POST", path.replace("/1/", "/x/"), json=body)) == ["n"]


def test_a_deleted_book_is_gone_and_can_come_back(api: Api) -> None:
    book_id = api.create()
    path = f"/v1/books/{book_id}"
    assert code(api("DELETE", path, params={"expected_revision": "7"})) == "revision_conflict"
    gone = api("DELETE", path, params={"expected_revision": "1"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert code(api("GET", path)) == "book_not_found"
    assert code(api("DELETE", path)) == "book_not_found"
    assert api("GET", "/v1/books").json()["books"] == []
    listed = api("GET", "/v1/books", params={"include_deleted": "true"}).json()["books"]
    assert listed[0]["deleted_at"] is not None
    back = api("POST", f"{path}/restore")
    assert (back.status_code, back.json()["deleted_at"]) == (200, None)
    assert api("GET", path).status_code == 200


def test_a_bound_book_is_deleted_by_force_alone(api: Api) -> None:
    book_id = api.create()
    prompt = {"prompt_id": "p"}
    api("PUT", "/v1/prompt-bindings", params=prompt, json={"bindings": [{"book_id": book_id}]})
    assert code(api("DELETE", f"/v1/books/{book_id}")) == "book_bound"
    forced = api("DELETE", f"/v1/books/{book_id}", params={"force": "true"})
    assert forced.status_code == 204
    resolved = api("GET", "/v1/prompt-bindings/resolve", params=prompt)
    assert code(resolved) == "binding_invalid"


def test_of_many_publishers_one_wins(api: Api) -> None:
    book_id = api.create()
    body = {**NEXT, "expected_revision": 1}

    async def race() -> list[str]:
        path = f"/v1/books/{book_id}/revisions"
        answers = await asyncio.gather(*(api.ask("POST", path, json=body) for _ in range(50)))
        return [code(answer) for answer in answers]

    assert Counter(api.run(race())) == {"201": 1, "revision_conflict": 49}


def test_of_many_twins_one_works_and_the_others_are_told_the_same(api: Api) -> None:
    async def race() -> list[tuple[int, str]]:
        key = {"Idempotency-Key": "twins"}
        asks = (api.ask("POST", "/v1/books", json=BOOK, headers=key) for _ in range(50))
        answers = await asyncio.gather(*asks)
        return [(each.status_code, each.json()["books"][0]["book_id"]) for each in answers]

    made = api.run(race())
    assert Counter(status for status, _ in made) == {201: 1, 200: 49}
    assert len({book_id for _, book_id in made}) == 1
    assert len(api("GET", "/v1/books").json()["books"]) == 1
