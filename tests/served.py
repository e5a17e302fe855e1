"""Tenants of a real server: each test has its own, so that a module can share a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from process import Server, running
from service import BOOK, PATIENT, Json

KINDS = ("sqlite", "postgres")


class Tenant:
    """Asks a server for one tenant that nobody else knows."""

    def __init__(self, server: Server, tenant_id: str | None = None) -> None:
        self.server = server
        self.tenant_id = tenant_id or f"tenant-{uuid4()}"

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        given["params"] = {"tenant_id": self.tenant_id, **given.get("params", {})}
        return self.server.client.request(method, path, **given)

    def at(self, server: Server) -> Tenant:
        """Return the same tenant at another server."""
        return Tenant(server, self.tenant_id)

    def create(self, book: Mapping[str, Any] = BOOK) -> str:
        """Store a book and return its id."""
        answer = self("POST", "/v1/books", json=book)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["books"][0]["book_id"])

    def publish(
        self, book_id: str, expected: int, book: Mapping[str, Any] = BOOK
    ) -> httpx.Response:
        """Ask for the next revision, whether it is given or not."""
        body = {**book, "expected_revision": expected}
        return self("POST", f"/v1/books/{book_id}/revisions", json=body)

    def revision(self, book_id: str, number: int) -> bytes:
        """Return a revision as it is sent, without the book's head."""
        answer = self("GET", f"/v1/books/{book_id}", params={"revision": str(number)})
        assert answer.status_code == 200, answer.text
        return answer.content.partition(b',"revision":{')[2]

    def entries(self, book_id: str, number: int | None = None) -> list[Json]:
        """Return the entries of a revision, of the latest one for None."""
        params = {} if number is None else {"revision": str(number)}
        answer = self("GET", f"/v1/books/{book_id}", params=params)
        assert answer.status_code == 200, answer.text
        entries: list[Json] = answer.json()["revision"]["entries"]
        return entries

    def books(self) -> set[str]:
        """Return the ids of all books that are stored, deleted ones too."""
        page = {"limit": "200", "include_deleted": "true"}
        listed = self("GET", "/v1/books", params=page).json()
        assert listed["next_cursor"] is None
        return {head["book_id"] for head in listed["books"]}


def at_once(count: int, ask: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Return the answers to as many requests that begin together."""
    begin = threading.Barrier(count)

    def run(_: int) -> httpx.Response:
        begin.wait()
        return ask()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def make_url(kind: str, request: pytest.FixtureRequest, temporary: pytest.TempPathFactory) -> str:
    """Return the URL of a new database of this kind, without tables."""
    if kind == "sqlite":
        return f"sqlite:///{temporary.mktemp('books') / 'lorewell.db'}"
    make: Callable[[], str] = request.getfixturevalue("make_database")
    return make()


@pytest.fixture(name="server", scope="module", params=KINDS)
def server_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Yield a server on a database of each kind, which the tests of a module share."""
    log = tmp_path_factory.mktemp("server") / "log"
    url = make_url(request.param, request, tmp_path_factory)
    with running(log, database_url=url, log_level="warning", **PATIENT) as server:
        yield server


@pytest.fixture(name="tenant")
def tenant_fixture(server: Server) -> Tenant:
    return Tenant(server)


@pytest.fixture(name="fresh_url", params=KINDS)
def fresh_url_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Return the URL of a database of the test's own."""
    return make_url(request.param, request, tmp_path_factory)
