"""Acceptance cases of docs/rules/native.md §16 on versions, keys and bindings, at a real server.

The number of the case leads every test's name, and its expectation is the text of the case. Cases
that need no service are in golden/test_acceptance.py; import and security are in
test_acceptance_import.py.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import httpx
import pytest

from process import Server, running
from served import (  # noqa: F401  fixtures are used by name
    Tenant,
    at_once,
    fresh_url_fixture,
    server_fixture,
    tenant_fixture,
)
from service import BOOK, UNKNOWN_BOOK, Json, code

LAMP, MOLE = BOOK["entries"][0], {"id": "mole", "content": "A mole.", "keys": ["mole"]}
BOTH = {"name": "Harbour", "entries": [LAMP, MOLE]}
OTHER = {"name": "Inn", "entries": [MOLE]}
CIRCLE = {"name": "Circle", "entries": [{"id": "a", "content": "x", "requires": ["a"]}]}
KEY = {"Idempotency-Key": "once"}
PROMPT = {"prompt_id": "scene"}


# --- 17-20: revisions --------------------------------------------------------------------------


def test_17_the_right_expected_revision_makes_the_next_and_leaves_the_first(
    tenant: Tenant,
) -> None:
    book_id = tenant.create(BOTH)
    first = tenant.revision(book_id, 1)
    answer = tenant.publish(book_id, 1, OTHER)
    assert (answer.status_code, answer.json()["revision"]) == (201, 2)
    assert tenant.revision(book_id, 1) == first
    assert tenant.revision(book_id, 2) != first


@pytest.mark.parametrize("expected", [1, 3])
def test_18_a_wrong_expected_revision_conflicts_and_is_told_the_actual(
    tenant: Tenant, expected: int
) -> None:
    book_id = tenant.create()
    assert tenant.publish(book_id, 1).status_code == 201
    answer = tenant.publish(book_id, expected, OTHER)
    assert (answer.status_code, code(answer)) == (409, "revision_conflict")
    assert answer.json()["details"] == {"expected": expected, "actual": 2}
    head = tenant("GET", f"/v1/books/{book_id}").json()["book"]
    assert (head["latest_revision"], head["name"]) == (2, "Harbour")


@pytest.mark.parametrize("publishers", [20, 50])
def test_19_of_many_publishers_of_one_expected_revision_exactly_one_wins(
    tenant: Tenant, publishers: int
) -> None:
    book_id = tenant.create()
    answers = at_once(publishers, lambda: tenant.publish(book_id, 1, OTHER))
    expected = {(201, "201"): 1, (409, "revision_conflict"): publishers - 1}
    assert Counter((each.status_code, code(each)) for each in answers) == expected
    listed = tenant("GET", f"/v1/books/{book_id}/revisions").json()["revisions"]
    assert [row["revision"] for row in listed] == [2, 1]


def test_20_an_entry_left_out_is_absent_there_and_present_before(tenant: Tenant) -> None:
    book_id = tenant.create(BOTH)
    assert tenant.publish(book_id, 1, BOOK).status_code == 201
    assert [entry["id"] for entry in tenant.entries(book_id, 2)] == ["lamp"]
    assert [entry["id"] for entry in tenant.entries(book_id, 1)] == ["lamp", "mole"]


# --- 21-27: keys and batches -------------------------------------------------------------------


def test_21_the_same_key_and_body_give_the_same_book(tenant: Tenant) -> None:
    first = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
    second = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
    assert (first.status_code, first.json()["replayed"]) == (201, False)
    assert (second.status_code, second.json()["replayed"]) == (200, True)
    assert second.json()["books"] == first.json()["books"]
    assert tenant.books() == {first.json()["books"][0]["book_id"]}


def test_21_twins_at_the_same_time_give_one_book(tenant: Tenant) -> None:
    answers = at_once(50, lambda: tenant("POST", "/v1/books", json=BOOK, headers=KEY))
    counts = Counter((each.status_code, each.json()["replayed"]) for each in answers)
    assert counts == {(201, False): 1, (200, True): 49}
    assert {each.json()["books"][0]["book_id"] for each in answers} == tenant.books()
    assert len(tenant.books()) == 1


def test_22_the_same_key_and_another_body_conflict(tenant: Tenant) -> None:
    first = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
    other = tenant("POST", "/v1/books", json=OTHER, headers=KEY)
    assert (other.status_code, code(other)) == (409, "idempotency_conflict")
    assert tenant.books() == {first.json()["books"][0]["book_id"]}


def test_23_the_same_key_of_another_tenant_is_another_key(tenant: Tenant) -> None:
    stranger = Tenant(tenant.server)
    first = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
    other = stranger("POST", "/v1/books", json=OTHER, headers=KEY)
    assert (first.status_code, other.status_code) == (201, 201)
    assert other.json()["replayed"] is False
    assert tenant.books() == {first.json()["books"][0]["book_id"]}
    assert stranger.books() == {other.json()["books"][0]["book_id"]}


def test_24_without_a_key_the_same_body_twice_makes_two_books(tenant: Tenant) -> None:
    made = {tenant.create(), tenant.create()}
    assert len(made) == 2
    assert tenant.books() == made


def test_25_a_key_is_replayed_after_a_restart(fresh_url: str, tmp_path: Path) -> None:
    given = {"database_url": fresh_url, "log_level": "warning"}
    with running(tmp_path / "log", **given) as server:
        tenant = Tenant(server)
        first = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
        assert first.status_code == 201
    with running(tmp_path / "log", **given) as server:
        tenant = tenant.at(server)
        again = tenant("POST", "/v1/books", json=BOOK, headers=KEY)
        assert (again.status_code, again.json()) == (200, {**first.json(), "replayed": True})
        assert tenant.books() == {first.json()["books"][0]["book_id"]}


def test_26_a_batch_holds_one_to_ten_books(tenant: Tenant) -> None:
    books = [{**BOOK, "name": f"Book {number}"} for number in range(11)]
    answer = tenant("POST", "/v1/imports", json={"books": books[:10]})
    made = [each["book_id"] for each in answer.json()["books"]]
    assert (answer.status_code, len(set(made))) == (201, 10)
    names = [tenant("GET", f"/v1/books/{each}").json()["book"]["name"] for each in made]
    assert names == [f"Book {number}" for number in range(10)]
    for refused in ([], books):
        answer = tenant("POST", "/v1/imports", json={"books": refused})
        assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert tenant.books() == set(made)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("bad", [{"name": "n" * 301}, CIRCLE], ids=["schema", "requires"])
def test_27_one_bad_book_in_a_batch_stores_none(tenant: Tenant, bad: Json, place: int) -> None:
    books = [BOOK, OTHER]
    books.insert(place, bad)
    answer = tenant("POST", "/v1/imports", json={"books": books})
    assert answer.status_code == 422
    assert tenant.books() == set()


# --- 28-33: bindings ---------------------------------------------------------------------------


def bind(tenant: Tenant, *bindings: Json) -> httpx.Response:
    """Store a prompt's bindings and return the answer."""
    body = {"bindings": bindings}
    return tenant("PUT", "/v1/prompt-bindings", params=PROMPT, json=body)


def bound(tenant: Tenant) -> list[str]:
    """Return the books that are stored for the prompt."""
    answer = tenant("GET", "/v1/prompt-bindings", params=PROMPT)
    return [each["book_id"] for each in answer.json()["bindings"]]


def resolved(tenant: Tenant) -> list[tuple[str, int]]:
    """Return the books and revisions that the prompt uses now."""
    answer = tenant("GET", "/v1/prompt-bindings/resolve", params=PROMPT)
    assert answer.status_code == 200, answer.text
    return [(each["book_id"], each["revision"]) for each in answer.json()["books"]]


def test_28_a_prompt_has_up_to_twenty_bindings_of_different_books(tenant: Tenant) -> None:
    batches = [tenant("POST", "/v1/imports", json={"books": [BOOK] * n}) for n in (10, 10, 1)]
    made = [each["book_id"] for batch in batches for each in batch.json()["books"]]
    named = [{"book_id": book_id} for book_id in made]
    assert bind(tenant, *named[:20]).status_code == 200
    for refused in (named, [named[20], named[20]]):
        answer = bind(tenant, *refused)
        assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert bound(tenant) == made[:20]
    assert resolved(tenant) == [(book_id, 1) for book_id in made[:20]]


def test_29_a_second_put_replaces_the_first(tenant: Tenant) -> None:
    made = [tenant.create() for _ in range(3)]
    assert bind(tenant, *({"book_id": book_id} for book_id in made)).status_code == 200
    assert bind(tenant, {"book_id": made[2]}).status_code == 200
    assert bound(tenant) == made[2:]
    assert resolved(tenant) == [(made[2], 1)]


def test_30_no_bindings_resolve_to_no_books(tenant: Tenant) -> None:
    bind(tenant, {"book_id": tenant.create()})
    assert bind(tenant).status_code == 200
    answer = tenant("GET", "/v1/prompt-bindings/resolve", params=PROMPT)
    assert (answer.status_code, answer.json()["books"]) == (200, [])


def test_31_a_pin_stays_and_a_following_binding_moves(tenant: Tenant) -> None:
    pinned, followed = tenant.create(), tenant.create()
    bind(tenant, {"book_id": pinned, "revision": 1}, {"book_id": followed, "revision": None})
    assert resolved(tenant) == [(pinned, 1), (followed, 1)]
    for book_id in (pinned, followed):
        assert tenant.publish(book_id, 1, OTHER).status_code == 201
    assert resolved(tenant) == [(pinned, 1), (followed, 2)]


def test_32_a_disabled_binding_is_not_resolved(tenant: Tenant) -> None:
    on, off = tenant.create(), tenant.create()
    bind(tenant, {"book_id": off, "enabled": False}, {"book_id": on})
    assert resolved(tenant) == [(on, 1)]
    assert bound(tenant) == [off, on]


def test_33_a_bound_book_deleted_by_force_makes_the_bindings_invalid(tenant: Tenant) -> None:
    kept, deleted = tenant.create(), tenant.create()
    bind(tenant, {"book_id": kept}, {"book_id": deleted})
    gone = tenant("DELETE", f"/v1/books/{deleted}", params={"force": "true"})
    assert gone.status_code == 204
    answer = tenant("GET", "/v1/prompt-bindings/resolve", params=PROMPT)
    assert (answer.status_code, code(answer)) == (409, "binding_invalid")
    assert deleted in answer.text
    assert kept not in answer.text


# --- 34: durability ----------------------------------------------------------------------------


def test_34_a_kill_right_after_201_loses_nothing(fresh_url: str, tmp_path: Path) -> None:
    given = {"database_url": fresh_url, "log_level": "warning"}
    server = Server(tmp_path / "log", **given)
    tenant = Tenant(server)
    answer = tenant("POST", "/v1/books", json=BOTH)
    server.kill()
    assert answer.status_code == 201
    book_id = answer.json()["books"][0]["book_id"]
    with running(tmp_path / "log", **given) as server:
        tenant = tenant.at(server)
        assert tenant.books() == {book_id}
        assert [entry["content"] for entry in tenant.entries(book_id)] == ["A lamp.", "A mole."]


# --- 76, 77, 91: selection and search ----------------------------------------------------------


def turn(*book_ids: str, query: str = "lamp") -> Json:
    return {"books": [{"book_id": book_id} for book_id in book_ids], "query": query}


@pytest.mark.parametrize("route", ["context/select", "context/preview", "search"])
def test_76_another_tenants_book_is_not_found(tenant: Tenant, route: str) -> None:
    stranger, book_id = Tenant(tenant.server), tenant.create()
    same = {"X-Request-ID": "same"}
    foreign = stranger("POST", f"/v1/{route}", json=turn(book_id), headers=same)
    unknown = stranger("POST", f"/v1/{route}", json=turn(UNKNOWN_BOOK), headers=same)
    assert (foreign.status_code, code(foreign)) == (404, "book_not_found")
    assert foreign.content.replace(book_id.encode(), UNKNOWN_BOOK.encode()) == unknown.content
    assert tenant("POST", f"/v1/{route}", json=turn(book_id)).status_code == 200


def select(tenant: Tenant, *book_ids: str) -> tuple[int, str]:
    body = {**turn(*book_ids), "explain": "none"}
    answer = tenant("POST", "/v1/context/select", json=body)
    return answer.status_code, code(answer)


def test_77_a_snapshot_holds_ten_thousand_entries(tenant: Tenant) -> None:
    full = {"name": "Full", "entries": [{"content": "x"}] * 5_000}
    first, second, one = (tenant.create(book) for book in (full, full, BOOK))
    assert select(tenant, first, second) == (200, "200")
    assert select(tenant, first, second, one) == (422, "snapshot_too_large")


def test_77_a_snapshot_holds_ten_million_characters(tenant: Tenant) -> None:
    contents = itertools.repeat({"content": "灯" * 200_000}, 50)
    full, one = (
        tenant.create({"name": "Long", "entries": entries})
        for entries in (list(contents), [{"content": "x"}])
    )
    assert select(tenant, full) == (200, "200")
    assert select(tenant, full, one) == (422, "snapshot_too_large")


def test_91_a_disabled_entry_is_found_by_search(tenant: Tenant) -> None:
    book = {"name": "Harbour", "entries": [{**LAMP, "enabled": False}, MOLE]}
    answer = tenant("POST", "/v1/search", json=turn(tenant.create(book)))
    assert answer.status_code == 200
    assert [found["entry_id"] for found in answer.json()["results"]] == ["lamp"]
