"""Starting and ending: a database that comes late, one that goes, and what is written last."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
import structlog

from embedding import TinyEmbedder
from fakes import MemoryStore
from lorewell import bootstrap, compile_book, select
from lorewell.app.native.selection import KeptSelection
from lorewell.app.ports import Part
from lorewell.app.services import Services
from lorewell.bootstrap import SystemClock, build_services, new_uuid, running
from lorewell.errors import StorageUnavailableError
from lorewell.http.guard import Guard
from lorewell.http.held import held_of
from lorewell.http.metrics import Metrics
from lorewell.http.observe import Observe
from lorewell.http.server import check_exposure, serve
from lorewell.model import BookCreate, SelectRequest
from lorewell.model.select import is_uuid
from lorewell.settings import load_settings
from lorewell.store import migrations
from service import BOOK, Api, serving


class LateStore(MemoryStore):
    """Can't be reached at first."""

    def __init__(self, attempts: int) -> None:
        super().__init__()
        self.attempts = attempts

    async def migrate(self) -> None:
        self.attempts -= 1
        if self.attempts >= 0:
            raise StorageUnavailableError("Not yet.")
        await super().migrate()


def test_a_database_may_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_SECONDS_BETWEEN_ATTEMPTS", 0.05)
    with serving(LateStore(3)) as api:
        assert api("GET", "/readyz", tenant=None).status_code == 503
        assert api("GET", "/healthz", tenant=None).status_code == 200
        api.run(asyncio.sleep(0.5))
        assert api("GET", "/readyz", tenant=None).status_code == 200


def test_a_database_that_never_comes_does_not_keep_the_service_from_ending() -> None:
    with serving(LateStore(10**6)) as api:
        assert api("GET", "/readyz", tenant=None).status_code == 503


def embedding(embedder: TinyEmbedder) -> Services:
    """Return services with another embedder."""
    services = build_services(load_settings(database_url="sqlite:///:memory:"))
    return replace(services, store=MemoryStore(), embedder=embedder)


def test_the_embedder_is_prepared_while_the_service_answers() -> None:
    embedder, begun, held = TinyEmbedder(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await held.wait()

    async def work() -> None:
        embedder.before = hold
        async with running(services), asyncio.timeout(60):
            await begun.wait()
            assert await services.store.check() is None
        assert embedder.closed

    services = embedding(embedder)
    asyncio.run(work())


def test_an_embedder_that_can_not_be_prepared_stops_nothing() -> None:
    embedder = TinyEmbedder()
    embedder.fails = "The model is broken."
    told: list[object] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with running(services):
            await services.jobs.wait(60)
            assert embedder.prepared == 1
            embedder.fails = None
            assert (await embedder.embed_query("灯塔")).shape == (embedder.dimensions,)

    services = embedding(embedder)
    asyncio.run(work())
    assert told == []


class WrongStore(MemoryStore):
    async def migrate(self) -> None:
        raise RuntimeError("a bug")


def test_a_bug_at_the_start_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="a bug"), serving(WrongStore()):
        pass


def test_kept_requests_are_written_while_the_service_runs(api: Api) -> None:
    made = api("POST", "/v1/books", json=BOOK).json()["books"][0]
    turn = {"books": [{"book_id": made["book_id"]}], "query": "lamp"}
    found = api("POST", "/v1/context/select", json=turn).json()["selection_fingerprint"]
    services = api.app.state.shared.services
    deadline = time.monotonic() + 60
    while api.run(services.store.read(lambda tx: tx.find_request("demo", found))) is None:
        assert time.monotonic() < deadline
        api.run(asyncio.sleep(0.1))


class GoneStore(MemoryStore):
    async def write(self, work: object) -> object:
        raise StorageUnavailableError("Gone.", work=str(work))


def test_a_database_that_is_gone_does_not_keep_the_service_from_ending() -> None:
    settings = load_settings()
    store = GoneStore()
    services = replace(build_services(settings), store=store)
    keeper = type(services.keeper)(store, services.clock, services.computing, keep_s=60)
    services = replace(services, keeper=keeper)

    async def run() -> None:
        async with running(services):
            book = compile_book(BookCreate(name="Harbour"))
            request = SelectRequest(books=(book.ref,), query="lamp")
            made = select([book], request)
            kept = KeptSelection(request, made.snapshot, None)
            services.keeper.keep("demo", made.selection_fingerprint, kept)

    asyncio.run(run())
    assert store._closed


def test_adapters() -> None:
    assert SystemClock().now().tzinfo is UTC
    assert is_uuid(new_uuid())
    assert new_uuid() != new_uuid()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_is_no_exposure(host: str) -> None:
    check_exposure(load_settings(host=host))


def test_serving_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def run(*_: object) -> None:
        seen["env"] = dict(os.environ)

    import os  # noqa: PLC0415  beside its only use

    monkeypatch.setattr("lorewell.http.server._answer", run)
    monkeypatch.setattr("lorewell.http.logs.configure", lambda _settings: None)
    monkeypatch.setenv("LOREWELL_CONFIG", "")
    monkeypatch.setenv("LOREWELL_PORT", "1")
    before = dict(os.environ)
    for workers in (1, 2):
        serve(load_settings(port=2, workers=workers, handover_bytes=0))
        assert seen["env"]["LOREWELL_PORT"] == "2"  # type: ignore[index]  # a dict
        assert "LOREWELL_CONFIG" not in seen["env"]  # type: ignore[operator]  # a dict
        assert ("PROMETHEUS_MULTIPROC_DIR" in seen["env"]) == (workers == 2)  # type: ignore[operator]  # a dict
        assert dict(os.environ) == before


def test_foreign_pages_open_no_socket() -> None:
    sent: list[dict[str, Any]] = []
    reached: list[str] = []

    async def app(scope: dict[str, object], _receive: object, _send: object) -> None:
        reached.append(str(scope["path"]))

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    services = build_services(load_settings())
    guard = Guard(app, allowed_hosts=(), cors_origins=("https://app.example",))
    given = {
        "cache": services.cache,
        "computing": services.computing,
        "held": held_of(load_settings()),
    }
    outer = Observe(guard, metrics=Metrics(), **given)

    async def connect(*headers: tuple[bytes, bytes]) -> None:
        scope = {
            "type": "websocket",
            "path": "/",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), *headers],
        }
        await outer(scope, None, send)  # type: ignore[arg-type]  # nothing is received

    asyncio.run(connect((b"origin", b"https://evil.example")))
    begin, body = sent
    assert (begin["type"], begin["status"]) == ("websocket.http.response.start", 403)
    assert json.loads(body["body"])["code"] == "forbidden"
    assert reached == []
    asyncio.run(connect((b"origin", b"https://app.example")))
    asyncio.run(connect((b"origin", b"http://localhost")))
    assert reached == ["/", "/"]


class NewerStore(LateStore):
    """Comes late, and was made by a newer version."""

    async def migrate(self) -> None:
        await super().migrate()
        raise StorageUnavailableError(migrations.NEWER)

    async def check(self) -> Part | None:
        return "storage" if self.attempts >= 0 else "newer_schema"


def test_a_database_that_comes_late_and_is_newer_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bootstrap, "_SECONDS_BETWEEN_ATTEMPTS", 0.05)
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    try:
        with structlog.testing.capture_logs() as logs, serving(NewerStore(3)) as api:
            assert api("GET", "/readyz", tenant=None).json()["details"]["part"] == "storage"
            api.run(asyncio.sleep(0.5))
            assert api("GET", "/readyz", tenant=None).json()["details"]["part"] == "newer_schema"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got == [signal.SIGTERM]
    told = [each["detail"] for each in logs if each["event"] == "database"]
    assert told == ["The database was made by a newer version of Lorewell."]


def test_a_newer_database_is_refused_at_the_start() -> None:
    with (
        pytest.raises(StorageUnavailableError, match="newer version"),
        serving(NewerStore(0)),
    ):
        pass


@pytest.mark.parametrize("what", ["newer", "text"])
def test_serving_refuses_a_database_that_no_waiting_makes_usable(tmp_path: Path, what: str) -> None:
    path = tmp_path / "books.db"
    if what == "text":
        path.write_text("Dear diary, " * 9)
    else:
        with serving(database_url=f"sqlite:///{path}"):
            pass
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(StorageUnavailableError) as caught:
        serve(load_settings(database_url=f"sqlite:///{path}", port=0))
    assert ("newer version" if what == "newer" else "not an SQLite database") in str(caught.value)
    assert path.read_bytes() == before
