"""Acceptance cases of docs/rules/native.md §16 on import, limits and security, at a real server.

As in test_acceptance.py, the number of the case leads every test's name.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

import process
from contract.harness import execute
from forked import CLI, finished
from offline import Watch, watch_fixture  # noqa: F401  a fixture is used by name
from pictures import png, raw_text, text, ztxt
from process import Server, environment, free_port, running
from served import (  # noqa: F401  fixtures are used by name
    KINDS,
    Tenant,
    fresh_url_fixture,
    server_fixture,
    tenant_fixture,
)
from service import BOOK, WORLD_INFO, Json, code, places

MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}
NATIVE_DOOR = "/v1/books"
PREVIEW, FILES = "/v1/imports/preview", "/v1/imports/files"
GARBAGE = b"no database " * 10_000


def preview(tenant: Tenant, data: bytes, name: str = "file") -> httpx.Response:
    return tenant("POST", PREVIEW, files=[("file", (name, data))])


def keep(tenant: Tenant, *files: bytes) -> httpx.Response:
    """Send files to be stored; they are named by their place."""
    return tenant("POST", FILES, files=[("files", (f"{n}", d)) for n, d in enumerate(files)])


def refuses_everywhere(tenant: Tenant, data: bytes, status: int, expected: str) -> None:
    """Assert that both file doors refuse a file, and that nothing is stored."""
    for answer in (preview(tenant, data), keep(tenant, data)):
        assert (answer.status_code, code(answer)) == (status, expected)
    assert tenant.books() == set()


# --- 92-97: files ------------------------------------------------------------------------------


def test_92_a_preview_stores_nothing(tenant: Tenant) -> None:
    shown = preview(tenant, WORLD_INFO)
    assert shown.status_code == 200
    assert [entry["content"] for entry in shown.json()["book"]["entries"]] == ["A lamp."]
    assert tenant.books() == set()
    (stored,) = keep(tenant, WORLD_INFO).json()["books"]
    assert stored["deduplicated"] is False


def test_93_without_recursion_fields_both_are_false(tenant: Tenant) -> None:
    assert b"ecursion" not in WORLD_INFO
    (shown,) = preview(tenant, WORLD_INFO).json()["book"]["entries"]
    (stored,) = tenant.entries(keep(tenant, WORLD_INFO).json()["books"][0]["book_id"])
    for entry in (shown, stored):
        assert (entry["exclude_recursion"], entry["prevent_recursion"]) == (False, False)


def test_94_the_same_file_again_is_the_same_book_at_revision_one(tenant: Tenant) -> None:
    first = keep(tenant, WORLD_INFO)
    (made,) = first.json()["books"]
    assert (first.status_code, made["revision"], made["deduplicated"]) == (201, 1, False)
    for is_published in (False, True):
        if is_published:
            assert tenant.publish(made["book_id"], 1).status_code == 201
        (known,) = keep(tenant, WORLD_INFO).json()["books"]
        assert (known["book_id"], known["revision"]) == (made["book_id"], 1)
        assert known["deduplicated"] is True
    (_, twin) = keep(tenant, WORLD_INFO + b" ", WORLD_INFO + b" ").json()["books"]
    assert twin["deduplicated"] is True
    assert tenant.books() == {made["book_id"], twin["book_id"]}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_95_one_broken_file_of_three_saves_nothing(tenant: Tenant, place: int) -> None:
    files = [WORLD_INFO, WORLD_INFO + b" "]
    files.insert(place, b'{"entries": {')
    answer = keep(tenant, *files)
    assert (answer.status_code, code(answer)) == (422, "import_invalid")
    assert answer.json()["details"]["file"] == str(place)
    assert tenant.books() == set()


def test_96_a_file_of_16_mib_is_stored_and_one_byte_more_is_refused(tenant: Tenant) -> None:
    exact = WORLD_INFO.ljust(16 * MIB)
    refuses_everywhere(tenant, exact + b" ", 413, "file_too_large")
    assert preview(tenant, exact).status_code == 200
    answer = keep(tenant, exact)
    assert answer.status_code == 201
    assert tenant.books() == {answer.json()["books"][0]["book_id"]}


def test_96_a_body_of_48_mib_is_stored_and_one_byte_more_is_refused(tenant: Tenant) -> None:
    exact = json.dumps(BOOK).encode().ljust(48 * MIB)
    answer = tenant("POST", NATIVE_DOOR, content=exact + b" ", headers=JSON)
    assert (answer.status_code, code(answer)) == (413, "body_too_large")
    assert tenant.books() == set()
    assert tenant("POST", NATIVE_DOOR, content=exact, headers=JSON).status_code == 201


def test_96_a_body_that_says_that_it_is_larger_is_refused_unread(tenant: Tenant) -> None:
    head = f"POST {NATIVE_DOOR}?tenant_id={tenant.tenant_id} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {48 * MIB + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", tenant.server.port), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_96_a_body_without_end_is_not_read_to_its_end(tenant: Tenant) -> None:
    taken = 0

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        while taken < 1024:
            taken += 1
            yield b" " * MIB

    answer = tenant("POST", NATIVE_DOOR, content=pieces(), headers=JSON)
    assert (answer.status_code, code(answer)) == (413, "body_too_large")
    assert 48 < taken < 120  # what is beyond the limit was under way already


CARD = {"name": "Ada", "character_book": {"entries": [{"keys": ["lamp"], "content": "A lamp."}]}}
V2 = {"spec": "chara_card_v2", "spec_version": "2.0", "data": CARD}
V3 = {"spec": "chara_card_v3", "spec_version": "3.0", "data": CARD}


@pytest.mark.parametrize(
    "data",
    [
        png(),
        png(raw_text(b"nothing", keyword="Comment")),
        png()[:50],
        png(text(V2))[:60],
        png(ztxt(b" " * (64 * MIB))),
    ],
    ids=["no card", "other text", "cut in the pixels", "cut in the card", "zip bomb"],
)
def test_97_a_picture_without_a_sound_card_is_invalid(tenant: Tenant, data: bytes) -> None:
    refuses_everywhere(tenant, data, 422, "import_invalid")


# --- 100, 109: no network ----------------------------------------------------------------------

LINK = "![](https://lore.example/map.png) <img src='http://192.0.2.1/x.png'>"
LINKED: Json = {
    "name": "Ada",
    "avatar": "https://lore.example/ada.png",
    "assets": [{"type": "icon", "uri": "https://lore.example/ada.png", "name": "main"}],
    "character_book": {"entries": [{"keys": ["lamp"], "content": f"A lamp. {LINK}"}]},
}
SHAPES = {
    "st_world": json.dumps(
        {"entries": {"0": {"uid": 0, "key": ["lamp"], "content": f"A lamp. {LINK}"}}}
    ).encode(),
    "character_book": json.dumps(LINKED["character_book"]).encode(),
    "card_v2_json": json.dumps({**V2, "data": LINKED}).encode(),
    "card_v3_json": json.dumps({**V3, "data": LINKED}).encode(),
    "card_png": png(text({**V2, "data": LINKED}), text({**V3, "data": LINKED}, "ccv3")),
}


def test_100_import_uses_no_network(fresh_url: str, tmp_path: Path, watch: Watch) -> None:
    watch.allow(fresh_url)
    with running(tmp_path / "log", database_url=fresh_url) as server:
        tenant = Tenant(server)
        for form, data in SHAPES.items():
            shown = preview(tenant, data)
            assert shown.json()["import_report"]["format"] == form
        answer = keep(tenant, *SHAPES.values())
        assert answer.status_code == 201, answer.text
        made = answer.json()["books"]
        assert [each["import_report"]["format"] for each in made] == list(SHAPES)
        for each in made:
            (entry,) = tenant.entries(each["book_id"])
            assert LINK in entry["content"]


def test_109_the_service_starts_and_selects_without_a_network(
    fresh_url: str, tmp_path: Path, watch: Watch
) -> None:
    watch.allow(fresh_url)
    with running(tmp_path / "log", database_url=fresh_url) as server:
        tenant = Tenant(server)
        turn = {"books": [{"book_id": tenant.create()}], "query": "the lamp"}
        for strategy in ("rules", "hybrid"):
            body = {**turn, "strategy": strategy}
            found = tenant("POST", "/v1/context/select", json=body).json()
            assert [block["content"] for block in found["blocks"]] == ["A lamp."]
            assert found["tokenizer"] == "cl100k_base"
            count = {"texts": [found["context"]]}
            counted = tenant("POST", "/v1/tokens/count", json=count).json()
            assert counted["counts"] == [found["token_count"]]


# --- 101-106, 110: what is refused -------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status", "expected"),
    [
        (b"Once there was a lamp.", 415, "unsupported_media_type"),
        (b"", 422, "import_invalid"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", 422, "import_invalid"),
        (b"<html>\n</html>", 422, "import_invalid"),
        (WORLD_INFO[:-10], 422, "import_invalid"),
        (b'[{"entries":', 422, "import_invalid"),
    ],
)
def test_101_a_file_of_no_known_kind_or_a_broken_one_is_refused(
    tenant: Tenant, data: bytes, status: int, expected: str
) -> None:
    refuses_everywhere(tenant, data, status, expected)


def test_102_every_route_of_a_tenant_asks_for_the_tenant(server: Server) -> None:
    asked = 0
    with httpx.Client(base_url=server.url) as client:
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            if not path.startswith("/v1/") or path.startswith("/v1/admin/"):
                continue
            for method in methods:
                answer = client.request(method, path.replace("{n}", "1"), params={"prompt_id": "p"})
                assert (answer.status_code, code(answer)) == (422, "validation_error")
                assert "tenant_id" in places(answer)
                asked += 1
    assert asked >= 19


def test_103_a_key_opens_its_tenants_and_scopes_alone(fresh_url: str, tmp_path: Path) -> None:
    given = {"database_url": fresh_url, "auth": "true"}
    ask = (*CLI, "keys", "create", "--tenant", "*", "--scope", "admin")
    made = finished(ask, environment(**given))
    assert made.returncode == 0, made.stderr
    with running(tmp_path / "log", **given) as server:
        demo, other = Tenant(server, "demo"), Tenant(server, "other")
        admin = {"Authorization": f"Bearer {made.stdout.strip()}"}
        keys = {}
        for scope in ("read", "write"):
            body = {"tenants": ["demo"], "scopes": [scope]}
            answer = server.client.post("/v1/admin/keys", json=body, headers=admin)
            assert answer.status_code == 201
            keys[scope] = {"Authorization": f"Bearer {answer.json()['secret']}"}
        for key in ({}, {"Authorization": "Bearer nobodys"}):
            for method, path in (("GET", NATIVE_DOOR), ("GET", "/v1/admin/books")):
                answer = demo(method, path, headers=key)
                assert (answer.status_code, code(answer)) == (401, "unauthenticated")
                assert answer.headers["WWW-Authenticate"]
        opens: list[tuple[Tenant, str, str, Json]] = [
            (demo, "GET", NATIVE_DOOR, {"read": 200, "write": 403, "admin": 403}),
            (other, "GET", NATIVE_DOOR, {"read": 403, "write": 403, "admin": 403}),
            (demo, "POST", NATIVE_DOOR, {"read": 403, "write": 201, "admin": 403}),
            (other, "POST", NATIVE_DOOR, {"read": 403, "write": 403, "admin": 403}),
            (demo, "GET", "/v1/admin/books", {"read": 403, "write": 403, "admin": 200}),
            (demo, "GET", "/v1/admin/tenants", {"read": 403, "write": 403, "admin": 200}),
            (demo, "GET", "/v1/admin/keys", {"read": 403, "write": 403, "admin": 200}),
        ]
        for tenant, method, path, statuses in opens:
            body = {"json": BOOK} if method == "POST" else {}
            found = {
                scope: tenant(method, path, headers=key, **body).status_code
                for scope, key in {**keys, "admin": admin}.items()
            }
            assert found == statuses, (tenant.tenant_id, method, path)
        for path in ("/healthz", "/readyz"):
            assert httpx.get(server.url + path).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104  refused
def test_104_an_open_address_without_keys_is_refused(host: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lorewell.db'}"
    serve = (*CLI, "serve", "--host", host, "--port", str(free_port()))
    done = finished(serve, environment(database_url=url))
    assert done.returncode != 0
    assert done.stdout == ""
    assert host in done.stderr
    assert "other machines can reach" in done.stderr
    assert not (tmp_path / "lorewell.db").exists()


def test_104_with_the_flag_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--host", "0.0.0.0", "--allow-unauthenticated")  # noqa: S104  for a moment
    monkeypatch.setattr(process, "SERVICE", (*CLI, "serve", *flags))
    url = f"sqlite:///{tmp_path / 'lorewell.db'}"
    with running(tmp_path / "log", database_url=url) as server:
        assert Tenant(server).create()


class Outage(NamedTuple):
    """A database, what makes it fail, and which part of it is not ready then."""

    url: str
    begin: Callable[[], None]
    part: str


@pytest.fixture(params=KINDS)
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Outage:
    if request.param == "sqlite":
        path = tmp_path / "lorewell.db"

        def spoil() -> None:
            with closing(sqlite3.connect(path)) as connection:  # else the log still has it all
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            path.write_bytes(GARBAGE)

        return Outage(f"sqlite:///{path}", spoil, "not_a_database")
    postgres: str = request.getfixturevalue("postgres_server")
    make: Callable[[], str] = request.getfixturevalue("make_database")
    url = make()
    name = urlsplit(url).path[1:]

    def close() -> None:
        sessions = f"FROM pg_stat_activity WHERE datname = '{name}'"
        execute(
            postgres,
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) {sessions}",
        )

    return Outage(url, close, "storage")


def test_105_with_its_storage_down_the_service_is_healthy_but_not_ready(
    outage: Outage, tmp_path: Path
) -> None:
    with running(tmp_path / "log", database_url=outage.url) as server:
        assert server.client.get("/readyz").status_code == 200
        outage.begin()
        ready = server.client.get("/readyz")
        assert (ready.status_code, code(ready)) == (503, "storage_unavailable")
        assert ready.json()["details"]["part"] == outage.part
        asked = server.client.get(NATIVE_DOOR)
        assert (asked.status_code, code(asked)) == (503, "storage_unavailable")
        assert server.client.get("/healthz").status_code == 200


class WaitingServer(Server):
    """A server that is awaited until it runs, whether it is ready or not."""

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.is_running:
            with suppress(httpx.TransportError):
                self.client.get("/healthz")
                return
            time.sleep(0.05)
        self.kill()
        raise AssertionError(self.log())


@pytest.mark.parametrize("kind", KINDS)
def test_105_a_service_whose_storage_never_came_is_healthy_but_not_ready(
    kind: str, tmp_path: Path
) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    if kind == "sqlite":
        folder = tmp_path / "folder"
        folder.touch()  # a file: no database can be made below it
        url = f"sqlite:///{folder / 'lorewell.db'}"
    server = WaitingServer(tmp_path / "log", database_url=url)
    try:
        assert server.client.get("/healthz").status_code == 200
        ready = server.client.get("/readyz")
        assert (ready.status_code, code(ready)) == (503, "storage_unavailable")
        assert ready.json()["details"]["part"] == "storage"
    finally:
        server.stop()


def test_106_a_native_book_at_the_file_door_is_normalised_and_told_so(tenant: Tenant) -> None:
    entry = {
        "id": "lamp",
        "content": "A lamp.",
        "keys": ["lamp"],
        "audience": ["planner"],
        "conflict_key": "light",
        "exclude_recursion": True,
        "prevent_recursion": True,
    }
    data = json.dumps({"name": "Harbour", "entries": [entry]}).encode()
    shown = preview(tenant, data).json()
    answer = keep(tenant, data)
    assert answer.status_code == 201
    (made,) = answer.json()["books"]
    for report in (shown["import_report"], made["import_report"]):
        assert report["format"] == "character_book"
        assert "looks_native" in {warning["code"] for warning in report["warnings"]}
    for found in (*shown["book"]["entries"], *tenant.entries(made["book_id"])):
        assert (found["exclude_recursion"], found["prevent_recursion"]) == (False, False)
        assert (found["audience"], found["conflict_key"]) == (["actor"], None)
        assert (found["content"], found["keys"]) == ("A lamp.", ["lamp"])


MALFORMED = ["nothing", "1", "99999999-9999-4999-8999", "{99999999-9999-4999-8999-999999999999}"]


@pytest.mark.parametrize("book_id", MALFORMED)
def test_110_a_malformed_book_id_is_not_found(tenant: Tenant, book_id: str) -> None:
    book, named = f"/v1/books/{book_id}", [{"book_id": book_id}]
    turn = {"books": named, "query": "lamp"}
    requests: list[tuple[str, str, Json]] = [
        ("GET", book, {}),
        ("DELETE", book, {}),
        ("POST", f"{book}/restore", {}),
        ("GET", f"{book}/revisions", {}),
        ("POST", f"{book}/revisions", {"json": {**BOOK, "expected_revision": 1}}),
        ("POST", f"{book}/revisions/1/restore", {"json": {"expected_revision": 1}}),
        ("GET", f"{book}/diff", {"params": {"from": "1", "to": "2"}}),
        ("GET", f"/v1/admin/books/{book_id}", {}),
        ("POST", "/v1/context/select", {"json": turn}),
        ("POST", "/v1/context/preview", {"json": turn}),
        ("POST", "/v1/search", {"json": turn}),
        ("PUT", "/v1/prompt-bindings", {"params": {"prompt_id": "p"}, "json": {"bindings": named}}),
    ]
    for method, path, sent in requests:
        answer = tenant(method, path, **sent)
        assert (answer.status_code, code(answer)) == (404, "book_not_found"), (method, path)
