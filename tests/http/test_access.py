"""API keys, administration, and that tenants never see each other."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from lorewell.app.access import hash_secret
from lorewell.app.rows import KeyRow
from lorewell.model import Scope
from service import BOOK, UNKNOWN_BOOK, WORLD_INFO, Api, Json, bearer, code, places, serving

SCOPES = ("read", "write", "tenant_admin", "admin", "metrics")


@pytest.fixture
def guarded(database: str) -> Iterator[Api]:
    with serving(database_url=database, auth=True) as api:
        yield api


def operations(api: Api) -> Iterator[tuple[str, str, Json]]:
    for path, methods in api.document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


READ = {
    "list_books",
    "get_book",
    "export_book",
    "list_revisions",
    "compare_revisions",
    "preview_import",
    "get_index",
    "list_indexes",
    "select_for_turn",
    "live",
    "preview_for_turn",
    "explain_context",
    "explain_activation",
    "explain_replica",
    "get_selection",
    "activate_for_turn",  # and `write` too, if it is to keep anything
    "get_activation",
    "preview_activation",
    "create_chat_completion",  # and `write` too, if its books keep timed state
    "list_models",
    "activate_replica",
    "get_replica_activation",
    "preview_replica",
    "replay_chat",
    "replay_context",
    "replay_replica",
    "compare_replays",
    "plan_replay",
    "assemble_prompt",
    "list_conversations",
    "get_conversation",
    "count_tokens",
    "try_condition",
    "lint",
    "search_books",
    "get_bindings",
    "list_prompts",
    "list_book_prompts",
    "resolve_bindings",
}
OPEN = {"check_health", "check_readiness"}


def scopes_of(path: str, operation: Json) -> set[str]:
    """Return the scopes of which a key needs one; of an open route none."""
    if operation["operationId"] in OPEN:
        return set()
    if path == "/metrics":
        return {"metrics", "admin"}
    if path.startswith("/v1/admin/keys"):
        return {"tenant_admin", "admin"}
    if "/admin/" in path:
        return {"admin"}
    return {"read"} if operation["operationId"] in READ else {"write"}


def filled(path: str) -> str:
    for name, value in (("book_id", UNKNOWN_BOOK), ("n", "1")):
        path = path.replace(f"{{{name}}}", value)
    return path.replace("{key_id}", "0" * 16).replace("{selection_id}", "0" * 64)


PARAMS = {"prompt_id": "p", "from": "1", "to": "2", "format": "native"}


def test_without_a_key_nothing_opens(guarded: Api) -> None:
    for method, path, operation in operations(guarded):
        answer = guarded(method, filled(path), params=PARAMS)
        if not scopes_of(path, operation):
            assert answer.status_code == 200
        else:
            assert (answer.status_code, code(answer)) == (401, "unauthenticated")
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_each_route_asks_for_one_scope(guarded: Api) -> None:
    for scope in SCOPES:
        key = bearer(guarded, scope, tenants=("*",))
        for method, path, operation in operations(guarded):
            needed = scopes_of(path, operation)
            answer = guarded(method, filled(path), params=PARAMS, headers=key)
            is_refused = code(answer) == "forbidden"
            assert is_refused == bool(needed and scope not in needed), (method, path, scope)


def test_a_key_opens_its_tenants_alone(guarded: Api) -> None:
    for tenants, opens in ((("demo",), True), (("other",), False), (("*",), True)):
        key = bearer(guarded, "read", tenants=tenants)
        answer = guarded("GET", "/v1/books", headers=key)
        assert (answer.status_code == 200) == opens
        assert opens or code(answer) == "forbidden"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer x", "Basic abc", "Bearer lw_0_0", "Bearer lw_é_é", "Bearer lw__x"],
)
def test_a_bad_key_is_no_key(guarded: Api, header: str) -> None:
    given = {"Authorization": header.encode("latin-1")}
    answer = guarded("GET", "/v1/books", headers=given)
    assert (answer.status_code, code(answer)) == (401, "unauthenticated")


def test_a_key_comes_before_the_body(guarded: Api) -> None:
    answer = guarded("POST", "/v1/books", content=b"not even JSON")
    assert code(answer) == "unauthenticated"


def test_keys_are_made_listed_and_revoked(guarded: Api) -> None:
    admin = bearer(guarded, "admin", tenants=("*",))
    body = {"name": "studio", "tenants": ["demo"], "scopes": ["read"]}
    made = guarded("POST", "/v1/admin/keys", json=body, headers=admin)
    assert made.status_code == 201
    own = {"Authorization": f"Bearer {made.json()['secret']}"}
    assert guarded("GET", "/v1/books", headers=own).status_code == 200
    listed = guarded("GET", "/v1/admin/keys", headers=admin)
    assert "secret" not in listed.text
    assert [key["name"] for key in listed.json()["keys"]] == ["", "studio"]
    path = f"/v1/admin/keys/{made.json()['id']}"
    assert guarded("DELETE", path, headers=admin).status_code == 204
    assert code(guarded("GET", "/v1/books", headers=own)) == "unauthenticated"
    for unknown in ("nobody", "%00", "k" * 3000):
        answer = guarded("DELETE", f"/v1/admin/keys/{unknown}", headers=admin)
        assert code(answer) == "not_found"
    for wrong in ({}, {**body, "scopes": []}, {**body, "tenants": ["a b"]}):
        answer = guarded("POST", "/v1/admin/keys", json=wrong, headers=admin)
        assert code(answer) == "validation_error"


def test_a_key_that_another_process_revokes_opens_nothing_more(guarded: Api, database: str) -> None:
    own = bearer(guarded, "read")
    for _ in range(3):
        assert guarded("GET", "/v1/books", headers=own).status_code == 200
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as other:
        other.execute("UPDATE api_keys SET revoked_at = created_at")
        other.commit()
    assert code(guarded("GET", "/v1/books", headers=own)) == "unauthenticated"


@pytest.mark.parametrize("scope", ["admin", "metrics"])
def test_what_is_about_the_whole_service_takes_all_tenants(guarded: Api, scope: str) -> None:
    admin = bearer(guarded, "admin", tenants=("*",))
    for tenants, status in ((["demo"], 422), (["demo", "other"], 422), (["demo", "*"], 201)):
        body = {"tenants": tenants, "scopes": ["read", scope]}
        answer = guarded("POST", "/v1/admin/keys", json=body, headers=admin)
        assert answer.status_code == status
        assert status == 201 or places(answer) == ["/tenants"]


def stored_key(api: Api, scopes: tuple[Scope, ...], tenants: tuple[str, ...]) -> dict[str, str]:
    """Return the header of a key as an older service could have made it."""
    secret, salt = "old", bytes(16)
    row = KeyRow(
        key_id="0123456789abcdef",
        name="old",
        tenants=tenants,
        scopes=scopes,
        salt=salt,
        secret_hash=hash_secret(secret, salt),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    api.run(api.app.state.shared.services.store.write(lambda tx: tx.insert_key(row)))
    return {"Authorization": f"Bearer lw_{row.key_id}_{secret}"}


def test_an_old_admin_key_of_some_tenants_is_refused_and_told_why(guarded: Api) -> None:
    old = stored_key(guarded, ("read", "admin"), ("demo",))
    assert guarded("GET", "/v1/books", headers=old).status_code == 200  # `read` still counts
    body = {"tenants": ["*"], "scopes": ["admin"]}
    for method, path, sent in (
        ("GET", "/v1/admin/tenants", {}),
        ("GET", "/v1/admin/books", {}),
        ("GET", "/v1/admin/keys", {}),
        ("POST", "/v1/admin/keys", {"json": body}),
        ("GET", "/metrics", {}),
    ):
        answer = guarded(method, path, headers=old, **sent)
        assert (answer.status_code, code(answer)) == (403, "forbidden")
        detail = answer.json()["detail"]
        assert "The scope 'admin' applies to the whole service" in detail
        assert "tenant_admin" in detail
    admin = bearer(guarded, "admin", tenants=("*",))
    path = "/v1/admin/keys/0123456789abcdef"
    assert guarded("DELETE", path, headers=admin).status_code == 204


def test_a_tenant_admin_has_the_keys_of_its_tenants_alone(guarded: Api) -> None:
    own = bearer(guarded, "read", "tenant_admin", tenants=("a", "b"))
    bearer(guarded, "read", tenants=("a", "c"))
    bearer(guarded, "read", tenants=("*",))
    inside = bearer(guarded, "write", tenants=("b",))

    def make(tenants: list[str], *scopes: str, key: dict[str, str] = own) -> tuple[int, str]:
        body = {"name": "made", "tenants": tenants, "scopes": scopes}
        answer = guarded("POST", "/v1/admin/keys", json=body, headers=key)
        return answer.status_code, code(answer)

    assert make(["a"], "read") == (201, "201")
    assert make(["a", "b"], "read", "tenant_admin") == (201, "201")
    for tenants in (["c"], ["a", "c"], ["*"], ["a", "*"]):
        assert make(tenants, "read") == (403, "forbidden")
    assert make(["a"], "write") == (403, "forbidden")
    for scope in ("admin", "metrics"):
        assert make(["a"], scope) == (422, "validation_error")
        assert make(["*"], scope) == (403, "forbidden")
    listed = guarded("GET", "/v1/admin/keys", headers=own).json()["keys"]
    assert [key["tenants"] for key in listed] == [["a", "b"], ["b"], ["a"], ["a", "b"]]
    admin = bearer(guarded, "admin", tenants=("*",))
    everything = guarded("GET", "/v1/admin/keys", headers=admin).json()["keys"]
    ids = {tuple(key["tenants"]): key["id"] for key in everything}
    for tenants, status in ((("a", "c"), 404), (("*",), 404), (("b",), 204)):
        path = f"/v1/admin/keys/{ids[tenants]}"
        unknown = guarded("DELETE", "/v1/admin/keys/unknown", headers=own)
        answer = guarded("DELETE", path, headers=own)
        assert answer.status_code == status
        if status == 404:
            assert answer.json()["detail"].split()[:-1] == unknown.json()["detail"].split()[:-1]
    assert guarded("GET", "/v1/books", tenant="b", headers=inside).status_code == 401
    for path in ("/v1/admin/tenants", "/v1/admin/books", "/metrics"):
        assert guarded("GET", path, headers=own).status_code == 403


def test_a_tenant_admin_of_all_tenants_makes_no_key_for_all(guarded: Api) -> None:
    own = bearer(guarded, "read", "tenant_admin", tenants=("*",))
    for tenants, status in ((["a"], 201), (["*"], 403)):
        body = {"tenants": tenants, "scopes": ["read"]}
        answer = guarded("POST", "/v1/admin/keys", json=body, headers=own)
        assert answer.status_code == status
    listed = guarded("GET", "/v1/admin/keys", headers=own).json()["keys"]
    assert [key["tenants"] for key in listed] == [["a"]]


def test_an_administrator_looks_across_tenants(api: Api) -> None:
    made = [api.create(tenant=tenant) for tenant in ("a", "b")]
    assert api("GET", "/v1/admin/tenants").json() == {"tenants": ["a", "b"]}
    listed = api("GET", "/v1/admin/books").json()["books"]
    assert [head["book_id"] for head in listed] == made[::-1]
    one = api("GET", "/v1/admin/books", params={"limit": "1"}).json()
    rest = api("GET", "/v1/admin/books", params={"cursor": one["next_cursor"]}).json()
    assert [head["book_id"] for head in rest["books"]] == made[:1]
    book = api("GET", f"/v1/admin/books/{made[0]}").json()
    assert book["book"]["tenant_id"] == "a"
    missing = api("GET", f"/v1/admin/books/{made[0]}", params={"revision": "2"})
    assert code(missing) == "revision_not_found"
    assert code(api("GET", f"/v1/admin/books/{UNKNOWN_BOOK}")) == "book_not_found"


def requests(book_id: str) -> list[tuple[str, str, Json]]:
    """Return a request of every kind that names a book."""
    book = f"/v1/books/{book_id}"
    named = [{"book_id": book_id}]
    turn = {"books": named, "query": "lamp"}
    return [
        ("GET", book, {}),
        ("GET", book, {"params": {"revision": "1"}}),
        ("GET", f"{book}/revisions", {}),
        ("GET", f"{book}/diff", {"params": {"from": "1", "to": "1"}}),
        ("GET", f"{book}/index", {}),
        ("DELETE", book, {}),
        ("POST", f"{book}/restore", {}),
        ("POST", f"{book}/revisions", {"json": {**BOOK, "expected_revision": 1}}),
        ("POST", f"{book}/revisions/1/restore", {"json": {"expected_revision": 1}}),
        ("POST", f"{book}/index", {"json": {"revision": 1}}),
        ("POST", "/v1/context/select", {"json": turn}),
        ("POST", "/v1/context/preview", {"json": turn}),
        ("POST", "/v1/context/preview", {"json": {**turn, "books": [{**named[0], "removed": []}]}}),
        ("POST", "/v1/search", {"json": turn}),
        ("PUT", "/v1/prompt-bindings", {"params": {"prompt_id": "p"}, "json": {"bindings": named}}),
    ]


def test_foreign_book_and_an_unknown_one_give_the_same_bytes(api: Api) -> None:
    book_id = api.create(tenant="owner")
    headers = {"X-Request-ID": "same"}
    pairs = zip(requests(book_id), requests(UNKNOWN_BOOK), strict=True)
    for (method, path, sent), (_, unknown, other) in pairs:
        foreign = api(method, path, headers=headers, **sent)
        nobodys = api(method, unknown, headers=headers, **other)
        assert foreign.status_code == 404
        assert foreign.content.replace(book_id.encode(), UNKNOWN_BOOK.encode()) == nobodys.content
        assert foreign.headers == nobodys.headers
    # Its owner still has it, unchanged.
    stored = api("GET", f"/v1/books/{book_id}", tenant="owner").json()["book"]
    assert (stored["latest_revision"], stored["deleted_at"]) == (1, None)


def test_a_tenant_never_meets_what_another_one_made(api: Api) -> None:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        made = {tenant: api.create(tenant=tenant) for tenant in ("a", "b")}
        owner, guest = data.draw(st.permutations(["a", "b"]))
        method, path, sent = data.draw(st.sampled_from(requests(made[owner])))
        assert api(method, path, tenant=guest, **sent).status_code == 404
        listed = api("GET", "/v1/books", tenant=guest, params={"limit": "200"}).json()["books"]
        assert made[owner] not in {head["book_id"] for head in listed}

    check()


def test_files_and_keys_of_tenants_are_their_own(api: Api) -> None:
    made = {}
    for tenant, key in itertools.product(("a", "b"), ({}, {"Idempotency-Key": "k"})):
        files = {"files": [("files", ("w.json", WORLD_INFO))]}
        answer = api("POST", "/v1/imports/files", tenant=tenant, headers=key, **files)
        made.setdefault(tenant, set()).add(answer.json()["books"][0]["book_id"])
    assert [len(ids) for ids in made.values()] == [1, 1]
    assert made["a"].isdisjoint(made["b"])
