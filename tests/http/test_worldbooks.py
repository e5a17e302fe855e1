"""The book routes of SillyTavern_replica: `/api/worldbooks…` over the ordinary books."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import httpx
import pytest

from lorewell.app.runtime.locks import NamedLocks
from lorewell.errors import RevisionConflictError
from replica_books import constant, keyed
from service import Api, Json, bearer, code, places, serving

BOOKS = "/api/worldbooks"
TOWER = keyed("塔", "灯塔", order=7, position=4, comment="塔", group=["渡口"])
LAMP = constant("lamp", order=3)
WORLD: Json = {
    "name": "SillyTavern's own",
    "entries": {
        "0": {"uid": 0, "key": ["钟"], "content": "钟归沈七管。", "position": 1, "order": 5},
        "7": {"uid": 7, "key": ["潮"], "content": "潮。", "position": 4, "depth": 2},
    },
}


class Books:
    """Asks the routes; they name no tenant."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def __call__(self, method: str, path: str = "", **given: Any) -> httpx.Response:
        return self.api(method, BOOKS + path, tenant=None, **given)

    def create(self, name: str = "渡口", entries: object = (TOWER, LAMP)) -> Json:
        body = {"name": name, "description": "雾里的渡口", "entries": entries}
        answer = self("POST", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def send(self, name: str, document: object, **given: Any) -> httpx.Response:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self("POST", f"/{name}/import", files={"file": ("世界书.json", data)}, **given)

    def get(self, path: str) -> Json:
        answer = self("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def revisions(self, name: str) -> int:
        """Return the number of revisions of a book, read from the other routes."""
        listed = self.api("GET", "/v1/books").json()["books"]
        return next(head["latest_revision"] for head in listed if head["name"] == name)


@pytest.fixture(name="books")
def books_fixture(database: str) -> Iterator[Books]:
    with serving(database_url=database, replica_tenant="demo") as api:
        yield Books(api)


def uids(entries: list[Json]) -> list[str]:
    return [entry["uid"] for entry in entries]


def without_times(entry: Mapping[str, Any]) -> Json:
    return {name: value for name, value in entry.items() if not name.endswith("edAt")}


ROUTES = (
    ("GET", ""),
    ("POST", ""),
    ("GET", "/"),
    ("POST", "/"),
    ("GET", "/x"),
    ("PUT", "/x"),
    ("DELETE", "/x"),
    ("GET", "/x/entries"),
    ("POST", "/x/entries"),
    ("GET", "/x/entries/u"),
    ("PUT", "/x/entries/u"),
    ("DELETE", "/x/entries/u"),
    ("POST", "/x/import"),
    ("GET", "/x/export"),
)
READING = frozenset({"GET"})


def test_the_routes_are_off_unless_a_tenant_is_named(api: Api) -> None:
    for method, path in ROUTES:
        assert code(api(method, BOOKS + path, tenant=None)) == "not_found"
    assert not [path for path in api.document["paths"] if path.startswith("/api/")]


def test_switched_on_they_are_in_the_document(books: Books) -> None:
    reported = {
        (method.upper(), path)
        for path, operations in books.api.document["paths"].items()
        for method in operations
        if path.startswith(BOOKS)
    }
    shown = ((m, path.replace("/x", "/{name}").replace("/u", "/{uid}")) for m, path in ROUTES)
    assert reported == {(method, BOOKS + path) for method, path in shown if path != "/"}


def test_the_document_with_them_holds_together(books: Books) -> None:
    document = books.api.document
    operations = [each for path in document["paths"].values() for each in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert {"name": "worldbooks"}.items() <= document["tags"][-1].items()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            reported = {
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"
            }
            assert reported == set(re.findall(r"\{(\w+)\}", path))


def test_a_book_is_created_shown_listed_changed_and_deleted(books: Books) -> None:
    made = books.create()
    assert (made["name"], made["description"], made["version"]) == ("渡口", "雾里的渡口", 1)
    assert made["createdAt"] == made["updatedAt"] > 1_600_000_000
    assert [without_times(entry) for entry in made["entries"]] == [TOWER, LAMP]
    assert books.get("/渡口") == made
    (listed,) = books.get("")
    assert listed == books.get("/")[0]
    assert {**made, "entryCount": 2} == {**listed, "entries": made["entries"], "version": 1}
    changed = books("PUT", "/渡口", json={"description": "新", "name": "ignored"}).json()
    assert (changed["description"], changed["entryCount"]) == ("新", 2)
    assert books("PUT", "/渡口", json={}).json()["description"] == "新"
    assert books("DELETE", "/渡口").json() == {"id": made["id"], "name": "渡口"}
    assert books.get("") == []
    assert code(books("GET", "/渡口")) == "book_not_found"
    deleted = books.api("GET", "/v1/books", params={"include_deleted": "true"}).json()["books"]
    assert deleted[0]["deleted_at"] is not None  # nothing is lost


def test_an_empty_book_needs_a_name_alone(books: Books) -> None:
    body = {"name": "空", "description": None, "whatever": 1}
    made = books("POST", "/", json=body)
    assert (made.status_code, made.json()["entries"]) == (201, [])
    assert books.get("/空/entries") == []


def test_a_book_can_be_created_of_a_map(books: Books) -> None:
    made = books.create("st", WORLD["entries"])
    assert [(each["uid"], each["position"]) for each in made["entries"]] == [("0", 0), ("7", 6)]
    triggers = {"trigger_config": TOWER["trigger_config"], "position": 3}
    made = books.create("own", {"灯塔": {**triggers, "uid": None}, "a": triggers})
    assert [(each["uid"], each["position"]) for each in made["entries"]] == [("灯塔", 3), ("a", 3)]


def test_the_last_changed_book_is_listed_first_and_stands_for_its_name(books: Books) -> None:
    first, second = books.create("一"), books.create("二")
    twin = books.api.create({"name": "一", "entries": [{"id": "n", "content": "new"}]})
    assert [each["id"] for each in books.get("")] == [twin, second["id"]]
    assert uids(books.get("/一/entries")) == ["n"]
    assert code(books("DELETE", "/一")) == "200"
    assert books.get("/一")["id"] == first["id"]
    books("PUT", "/二", json={"description": "!"})
    assert [each["name"] for each in books.get("")] == ["二", "一"]


@pytest.mark.parametrize("spelling", ["", "/"])
def test_a_name_that_is_there_is_taken(books: Books, spelling: str) -> None:
    books.create()
    answer = books("POST", spelling, json={"name": "渡口"})
    assert (answer.status_code, code(answer)) == (409, "name_taken")
    assert answer.json()["details"] == {"name": "渡口"}
    books("DELETE", "/渡口")
    books.create()


def test_every_change_is_a_revision(books: Books) -> None:
    books.create()
    books("POST", "/渡口/entries", json={"uid": "a"})
    books("PUT", "/渡口/entries/a", json={"content": "b"})
    books("DELETE", "/渡口/entries/a")
    books("PUT", "/渡口", json={"description": "x"})
    books.send("渡口", WORLD)
    assert books.revisions("渡口") == 6
    book_id = books.get("/渡口")["id"]
    old = books.api("GET", f"/v1/books/{book_id}", params={"revision": "3"}).json()
    assert [each["content"] for each in old["revision"]["entries"]][-1] == "b"


def test_an_entry_is_created_shown_listed_changed_and_deleted(books: Books) -> None:
    books.create()
    made = books("POST", "/渡口/entries", json=constant("新/entry", probability=50))
    assert made.status_code == 201
    entry = made.json()
    assert entry["createdAt"] == entry["updatedAt"] > 1_600_000_000
    path = "/渡口/entries/%E6%96%B0%2Fentry"
    assert books.get(path) == entry
    assert uids(books.get("/渡口/entries")) == ["塔", "lamp", "新/entry"]
    changed = books("PUT", path, json={"content": "changed", "uid": "other", "createdAt": 1}).json()
    assert {**entry, "content": "changed"} | {"updatedAt": changed["updatedAt"]} == changed
    assert books.get(path) == changed
    assert books("DELETE", path).json() == {"uid": "新/entry"}
    assert code(books("GET", path)) == "not_found"
    assert uids(books.get("/渡口/entries")) == ["塔", "lamp"]


def test_a_uid_is_kept_or_made(books: Books) -> None:
    books.create()
    assert books("POST", "/渡口/entries", json={"uid": 12}).json()["uid"] == "12"
    for given in ({}, {"uid": ""}, {"uid": None}):
        uid = books("POST", "/渡口/entries", json=given).json()["uid"]
        assert len(uid) == 36
        assert books.get(f"/渡口/entries/{uid}")["uid"] == uid
    twice = books("POST", "/渡口/entries", json={"uid": "12"})
    assert (twice.status_code, code(twice)) == (409, "name_taken")
    assert twice.json()["details"] == {"name": "渡口", "uid": "12"}


def test_times_change_when_an_entry_does(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    books.create()
    before = books.get("/渡口/entries/lamp")
    services = books.api.app.state.shared.services
    now, seconds = services.clock.now(), count(100)

    def later(_clock: object) -> object:
        return now.replace(microsecond=0).fromtimestamp(now.timestamp() + next(seconds), now.tzinfo)

    monkeypatch.setattr(type(services.clock), "now", later)
    changed = books("PUT", "/渡口/entries/lamp", json={"order": 9}).json()
    assert changed["createdAt"] == before["createdAt"]
    assert changed["updatedAt"] >= before["updatedAt"] + 99
    assert books.get("/渡口")["updatedAt"] >= before["updatedAt"] + 99
    assert books.get("/渡口/entries/塔")["updatedAt"] == before["updatedAt"]


def test_what_a_change_does_not_name_stays(books: Books) -> None:
    """Also what only the native form can say of an entry."""
    native = {
        "id": "n",
        "content": "old",
        "keys": ["lamp"],
        "requires": ["m"],
        "priority": 4,
        "audience": ["narrator"],
        "metadata": {"mine": 1},
        "conditions": [{"path": "/a", "op": "eq", "value": 1}],
    }
    book_id = books.api.create({"name": "N", "entries": [native, {"id": "m", "content": ""}]})

    def stored(revision: str) -> Json:
        book = books.api("GET", f"/v1/books/{book_id}", params={"revision": revision}).json()
        return book["revision"]["entries"][0]

    changed = books("PUT", "/N/entries/n", json={"content": "new", "order": 5})
    assert changed.status_code == 200, changed.text
    assert {**stored("1"), "content": "new", "order": 5} == stored("2")
    assert changed.json()["content"] == "new"


def test_an_entry_keeps_members_that_nobody_knows(books: Books) -> None:
    odd = {**constant("odd"), "theirs": {"深": [1, 2.5, None, 10**30]}}
    books.create(entries=[odd])
    books("PUT", "/渡口/entries/odd", json={"comment": "c", "other": True})
    shown = books.get("/渡口/entries/odd")
    assert without_times(shown) == {**odd, "comment": "c", "other": True}


def test_an_entry_that_another_needs_can_not_go(books: Books) -> None:
    entries = [{"id": "a", "content": "", "requires": ["b"]}, {"id": "b", "content": ""}]
    books.api.create({"name": "N", "entries": entries})
    assert code(books("DELETE", "/N/entries/b")) == "invalid_dependency"
    assert uids(books.get("/N/entries")) == ["a", "b"]


def test_a_book_that_a_prompt_uses_can_not_go(books: Books) -> None:
    book_id = books.create()["id"]
    body = {"bindings": [{"book_id": book_id}], "policy": "replica"}
    books.api("PUT", "/v1/prompt-bindings", params={"prompt_id": "p"}, json=body)
    assert code(books("DELETE", "/渡口")) == "book_bound"


def test_38_both_forms_are_imported_and_merged_by_uid(books: Books) -> None:
    internal = {
        "name": "file's",
        "description": "d",
        "entries": [TOWER, {"content": "no triggers"}],
    }
    reported = books.send("新书", internal).json()
    assert reported == {"name": "新书", "created": True, "added": 2, "updated": 0, "entryCount": 2}
    book = books.get("/新书")
    assert (book["name"], book["description"]) == ("新书", "d")
    named = book["entries"][1]["uid"]
    assert len(named) == 36
    coming = {"entries": [{**TOWER, "content": "incoming wins"}, {"content": "another"}]}
    reported = books.send("新书", coming).json()
    assert reported == {"name": "新书", "created": False, "added": 1, "updated": 1, "entryCount": 3}
    entries = books.get("/新书/entries")
    assert [entry["content"] for entry in entries] == ["incoming wins", "no triggers", "another"]
    assert uids(entries)[:2] == ["塔", named]
    reported = books.send("新书", WORLD).json()
    assert (reported["added"], reported["updated"]) == (2, 0)
    assert uids(books.get("/新书/entries"))[3:] == ["0", "7"]
    assert books.send("新书", WORLD).json()["updated"] == 2


def test_positions_of_an_import_are_those_of_its_form(books: Books) -> None:
    books.send("st", WORLD)
    assert [entry["position"] for entry in books.get("/st/entries")] == [0, 6]
    triggers = TOWER["trigger_config"]
    books.send("own", {"entries": {"a": {"position": 1, "trigger_config": triggers}}})
    assert [(e["uid"], e["position"]) for e in books.get("/own/entries")] == [("a", 1)]
    words = {"position": "author_note", "order": 1, "group": ["渡口"], "constant": True}
    books.send("words", {"entries": {"3": {"uid": 3, "content": "c", **words}}})
    body = {"worldBookData": {"globalBooks": [{"name": "words"}]}}
    active = books.api("POST", "/v1/replica/activate", json=body).json()["entries"]
    assert [(entry["uid"], entry["position"], entry["group"]) for entry in active] == [
        ("3", 4, ["渡口"])
    ]


def test_39_an_exported_book_comes_back_as_it_was(books: Books) -> None:
    odd = {**LAMP, "uid": "odd", "position": "at_depth", "depth": 2, "theirs": 1}
    books.create(entries=[TOWER, LAMP, odd])
    answer = books("GET", "/渡口/export", params={"format": "internal"})
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert answer.json() == books("GET", "/渡口/export").json() == books.get("/渡口")
    books.send("again", {**answer.json(), "未知": {"深": [1]}})
    assert books("GET", "/again/export").json()["未知"] == {"深": [1]}
    assert books.get("/again/entries") == books.get("/渡口/entries")
    assert books.get("/again")["description"] == "雾里的渡口"


def test_a_world_of_sillytavern_comes_back_as_it_was(books: Books) -> None:
    books.send("st", WORLD)
    exported = books("GET", "/st/export", params={"format": "sillytavern"}).json()
    assert exported["entries"] == WORLD["entries"]
    books.create()
    entries = books("GET", "/渡口/export", params={"format": "sillytavern"}).json()["entries"]
    assert [entry["content"] for entry in entries.values()] == ["C-塔", "C-lamp"]
    assert [entry["position"] for entry in entries.values()] == [2, 1]


BAD_NAMES = ("a\0b", "..", "../x", "a/b", "a\\b", "a..b", "x\ny", "\x7f", " ", "雾" * 101)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_40_a_name_is_no_path(books: Books, name: str) -> None:
    answer = books("POST", json={"name": name})
    assert (answer.status_code, places(answer)) == (422, ["/name"])
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    for method, path in ROUTES:
        if not path.startswith("/x"):
            continue
        answer = books(method, path.replace("x", encoded, 1), json={})
        assert (answer.status_code, places(answer)) == (422, ["name"]), (method, path)


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "", {}, "/name"),
        ("POST", "", {"name": 7}, "/name"),
        ("POST", "", [], ""),
        ("POST", "", {"name": "n", "description": "x" * 10_001}, "/description"),
        ("POST", "", {"name": "n", "entries": [{"content": "x" * 200_001}]}, "/entries/0/content"),
        ("POST", "", {"name": "n", "entries": ["x"]}, "/entries/0"),
        ("PUT", "/渡口", {"description": 7}, "/description"),
        ("POST", "/渡口/entries", [], ""),
        ("POST", "/渡口/entries", {"content": "x" * 200_001}, "/content"),
        ("POST", "/渡口/entries", {"uid": "x" * 151}, "/uid"),
        ("POST", "/渡口/entries", {"uid": "a\nb"}, "/uid"),
        ("POST", "/渡口/entries", {"theirs": "\x00"}, "/theirs"),
        ("PUT", "/渡口/entries/lamp", {"content": "x" * 200_001}, "/content"),
        (
            "PUT",
            "/渡口/entries/塔",
            {"trigger_config": {"triggers": {"keyword": [True, {"key": ["x" * 501]}]}}},
            "",
        ),
    ],
)
def test_faults_are_named(books: Books, method: str, path: str, body: object, place: str) -> None:
    books.create()
    answer = books(method, path, json=body)
    assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert places(answer)[0] == place
    assert books.revisions("渡口") == 1


def test_a_book_can_not_hold_more_than_the_contract_lets_it(books: Books) -> None:
    many = [{"id": str(number), "content": ""} for number in range(5_000)]
    books.api.create({"name": "full", "entries": many})
    assert places(books("POST", "/full/entries", json={})) == ["/entries"]
    assert places(books.send("full", {"entries": [TOWER]})) == ["/entries"]
    assert code(books("PUT", "/full/entries/7", json={"content": "x"})) == "200"


def test_files_that_are_no_book_are_refused(books: Books) -> None:
    for data in (b"{}", b"[]", b"null", b'{"entries": 7}', b'{"entries": [', b"<html>", b""):
        assert code(books.send("n", data)) in {"import_invalid", "unsupported_media_type"}, data
    no_book = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "A"}}
    assert code(books.send("n", no_book)) == "import_invalid"
    too_long = {"entries": [{"uid": "a", "content": "x" * 200_001}]}
    assert places(books.send("n", too_long)) == ["/entries/0/content"]
    assert books.get("") == []
    assert code(books("POST", "/n/import", json={})) == "unsupported_media_type"
    assert places(books("POST", "/n/import", files={"other": b"{}"})) == ["/other"]


def test_what_is_not_there_is_not_found(books: Books) -> None:
    books.create()
    for method, path in ROUTES:
        if path.startswith("/x") and not path.endswith("/import"):
            answer = books(method, path, json={})
            assert (answer.status_code, code(answer)) == (404, "book_not_found"), (method, path)
    for method in ("GET", "PUT", "DELETE"):
        answer = books(method, "/渡口/entries/none", json={})
        assert (answer.status_code, code(answer)) == (404, "not_found")


def test_other_methods_are_told_which_there_are(books: Books) -> None:
    for path, allowed in (
        ("", "GET, POST"),
        ("/", "GET, POST"),
        ("/x", "DELETE, GET, PUT"),
        ("/x/entries", "GET, POST"),
        ("/x/entries/u", "DELETE, GET, PUT"),
        ("/x/import", "POST"),
        ("/x/export", "GET"),
    ):
        answer = books("PATCH", path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    for method, path in (("PUT", "/x/entries"), ("GET", "/x/import"), ("DELETE", "/x/export")):
        assert code(books(method, path, json={})) == "method_not_allowed"
    assert places(books("GET", "/x/export", params={"format": "yaml"})) == ["format"]


def test_keys_and_scopes_hold(database: str) -> None:
    with serving(database_url=database, replica_tenant="demo", auth=True) as api:
        books = Books(api)
        reader, writer = bearer(api, "read"), bearer(api, "write")
        elsewhere = bearer(api, "read", "write", tenants=("other",))
        for method, path in ROUTES:
            assert code(books(method, path)) == "unauthenticated"
            fits, short = (reader, writer) if method in READING else (writer, reader)
            for key in (short, elsewhere):
                assert code(books(method, path, headers=key)) == "forbidden", (method, path)
            assert books(method, path, headers=fits).status_code not in (401, 403)


def test_a_foreign_page_can_not_change_anything(books: Books) -> None:
    headers = {"Origin": "http://evil.example"}
    for method, path in ROUTES:
        if method not in READING:
            assert code(books(method, path, headers=headers)) == "forbidden"


def test_a_tenant_in_the_query_changes_nothing(books: Books) -> None:
    books.create()
    assert len(books("GET", params={"tenant_id": "other"}).json()) == 1
    assert books.api("GET", "/v1/books", tenant="other").json()["books"] == []


def add_at_once(books: Books, count: int) -> None:
    """Add so many entries to the empty book at the same time, and find all of them."""

    async def together() -> list[httpx.Response]:
        path = f"{BOOKS}/渡口/entries"
        names = [f"e{number}" for number in range(count)]
        asked = [books.api.ask("POST", path, tenant=None, json=constant(name)) for name in names]
        return await asyncio.gather(*asked)

    answers = books.api.run(together())
    assert {answer.status_code for answer in answers} == {201}
    assert {*uids(books.get("/渡口/entries"))} == {f"e{number}" for number in range(count)}
    assert books.revisions("渡口") == 1 + count


def test_changes_at_the_same_time_lose_nothing(books: Books) -> None:
    books.create(entries=[])
    add_at_once(books, 12)


def test_neither_do_those_of_several_processes(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NamedLocks, "lock", lambda *_: asyncio.Lock())  # as other processes
    books.create(entries=[])
    add_at_once(books, 5)


def test_who_is_overtaken_for_ever_is_told(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    books.create()

    async def overtaken(*_: object, **__: object) -> None:
        raise RevisionConflictError("The book has moved on.", expected=1, actual=2)

    monkeypatch.setattr("lorewell.app.replica.worldbooks.publish", overtaken)
    answer = books("PUT", "/渡口", json={"description": "x"})
    assert (answer.status_code, code(answer)) == (409, "revision_conflict")


def test_imports_of_one_new_book_at_the_same_time_are_merged(books: Books) -> None:
    async def together() -> list[httpx.Response]:
        asked = []
        for number in range(4):
            data = json.dumps({"entries": [constant(f"e{number}")]}).encode()
            files = {"file": ("w.json", data)}
            asked.append(books.api.ask("POST", f"{BOOKS}/n/import", tenant=None, files=files))
        return await asyncio.gather(*asked)

    reported = [answer.json() for answer in books.api.run(together())]
    assert sum(each["created"] for each in reported) == 1
    assert sorted(uids(books.get("/n/entries"))) == ["e0", "e1", "e2", "e3"]
    assert len(books.get("")) == 1


def test_20_22_a_created_book_is_activated_by_name_or_id(books: Books) -> None:
    book_id = books.create()["id"]
    for named, source in (
        ({"globalBooks": [{"id": book_id}, {"name": "渡口"}]}, "global"),
        ({"characterBookId": book_id}, "character"),
    ):
        body = {"worldBookData": named, "mes": "去灯塔看看"}
        answer = books.api("POST", "/v1/replica/activate", json=body).json()
        assert [entry["uid"] for entry in answer["entries"]] == ["lamp", "塔"]
        assert {entry["source"] for entry in answer["entries"]} == {source}
