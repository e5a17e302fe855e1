"""Builds of vector indexes share what they embed: revisions, books and builds at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from embedding import TinyEmbedder
from service import Api, Json, code, serving

ENTRIES = 5_000


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, database: str) -> str:
    if request.param == "sqlite":
        return database
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def embedder() -> TinyEmbedder:
    return TinyEmbedder(dimensions=16)


@pytest.fixture
def api(url: str, embedder: TinyEmbedder) -> Iterator[Api]:
    with serving(with_embedder=embedder, database_url=url) as api:
        yield api


def lore(count: int, *, name: str = "灯", begin: int = 0) -> Json:
    entries = [
        {"id": f"e{n}", "title": f"ประภาคาร {n}", "content": f"{name} {n} 🏮"}
        for n in range(begin, begin + count)
    ]
    return {"name": "雾", "entries": entries}


async def build(
    api: Api, book_id: str, revision: int = 1, *, tenant: str = "demo", force: bool = False
) -> httpx.Response:
    body = {"revision": revision, "force": force}
    return await api.ask("POST", f"/v1/books/{book_id}/index", tenant=tenant, json=body)


def state(api: Api, book_id: str, revision: int) -> Json:
    return api("GET", f"/v1/books/{book_id}/index", params={"revision": revision}).json()


def test_of_a_large_book_only_what_changed_is_embedded(api: Api, embedder: TinyEmbedder) -> None:
    book = lore(ENTRIES)
    book_id = api.create(book)
    assert api.run(build(api, book_id)).json()["chunk_count"] == ENTRIES
    assert len(embedder.texts) == len(set(embedder.texts)) == ENTRIES
    embedder.batches.clear()
    entries = list(book["entries"])
    for place in (7, 2_500, ENTRIES - 1):
        entries[place] = {**entries[place], "content": f"新的 {place}"}
    entries[9] = {**entries[9], "keys": ["灯"], "priority": 3}  # nothing that is embedded
    api.publish(book_id, 1, {**book, "entries": entries})
    assert state(api, book_id, 2)["status"] == "absent"
    built = api.run(build(api, book_id, 2)).json()
    assert (built["revision"], built["usable"], built["chunk_count"]) == (2, True, ENTRIES)
    expected = {f"ประภาคาร {place}\n新的 {place}" for place in (7, 2_500, ENTRIES - 1)}
    assert sorted(embedder.texts) == sorted(expected)
    assert state(api, book_id, 1)["usable"] is True
    for revision, found in ((1, "灯 2500 🏮"), (2, "新的 2500")):
        books = [{"book_id": book_id, "revision": revision}]
        body = {"query": f"ประภาคาร 2500\n{found}", "mode": "vector", "books": books, "limit": 1}
        (best,) = api("POST", "/v1/search", json=body).json()["results"]
        assert (best["excerpt"], best["revision"]) == (found, revision)
        assert best["score"] == pytest.approx(1, abs=1e-5)


def test_builds_at_the_same_time_share_their_texts(api: Api, embedder: TinyEmbedder) -> None:
    async def yielding() -> None:
        await asyncio.sleep(0.002)

    embedder.before = yielding
    one, two = api.create(lore(300)), api.create(lore(300, begin=100))
    api.publish(one, 1, lore(250, begin=50))

    async def together() -> list[httpx.Response]:
        wanted = ((one, 1), (two, 1), (one, 2))
        return list(await asyncio.gather(*(build(api, *each) for each in wanted)))

    built = [answer.json() for answer in api.run(together())]
    assert [each["status"] for each in built] == ["ready"] * 3
    assert [each["chunk_count"] for each in built] == [300, 300, 250]
    counts = Counter(embedder.texts)
    assert len(counts) == 400
    assert max(counts.values()) <= 3  # a build can't know what the others are at
    embedder.batches.clear()

    async def forced() -> list[httpx.Response]:
        return list(
            await asyncio.gather(
                build(api, one, 1, force=True), build(api, two, 1), build(api, one, 2, force=True)
            )
        )

    again = [answer.json() for answer in api.run(forced())]
    assert [each["usable"] for each in again] == [True] * 3
    assert [each["reused"] for each in again] == [False, True, False]
    assert max(Counter(embedder.texts).values()) == 2


class Later:
    """A clock that can be put on."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.ahead = inner, timedelta()

    def now(self) -> datetime:
        now: datetime = self.inner.now()
        return now + self.ahead


def test_vectors_of_an_earlier_model_go_when_nothing_names_them(
    api: Api, embedder: TinyEmbedder
) -> None:
    shared = api.app.state.shared
    clock = Later(shared.services.clock)
    api.app.state.shared = replace(shared, services=replace(shared.services, clock=clock))
    book_id, other = api.create(lore(10)), api.create(lore(10), tenant="other")
    api.run(build(api, book_id))
    assert len(embedder.texts) == 10
    api.run(build(api, other, tenant="other"))
    assert len(embedder.texts) == 20  # tenants share nothing
    embedder.version = "tiny/2"
    for days, left in ((0, 10), (2, 0)):
        clock.ahead = timedelta(days=days)
        assert api.run(build(api, book_id, force=True)).json()["usable"] is True
        assert [_known(api, tenant, "tiny/1") for tenant in ("demo", "other")] == [left, 10]
        assert _known(api, "demo", "tiny/2") == 10


def _known(api: Api, tenant: str, version: str) -> int:
    from lorewell.app.vectors.indexing import _cut  # noqa: PLC0415
    from lorewell.model import BookCreate  # noqa: PLC0415
    from lorewell.model.parse import parse_model  # noqa: PLC0415
    from lorewell.retrieval.chunks import CHUNKER  # noqa: PLC0415

    document = parse_model(BookCreate, lore(10)).model_dump_json(exclude_defaults=True)
    hashes = list(_cut(document.encode())[1])
    store = api.app.state.shared.services.store
    asked = f"{version}+{CHUNKER}"
    return len(api.run(store.read(lambda tx: tx.known_texts(tenant, asked, hashes))))


def test_a_search_by_vectors_alone_says_so_when_its_index_goes_stale_meanwhile(
    api: Api, embedder: TinyEmbedder
) -> None:
    book = lore(3)
    book_id = api.create(book)
    api.run(build(api, book_id))

    async def publish() -> None:
        embedder.before = None
        body = {**book, "name": "新", "expected_revision": 1}
        assert (await api.ask("POST", f"/v1/books/{book_id}/revisions", json=body)).is_success

    embedder.before = publish
    body = {"query": "灯", "mode": "vector", "books": [{"book_id": book_id}]}
    answer = api("POST", "/v1/search", json=body)
    assert (answer.status_code, code(answer)) == (409, "index_not_ready")
    assert answer.json()["details"]["books"] == [{"book_id": book_id, "revision": 2}]


@pytest.fixture
def following(url: str, embedder: TinyEmbedder) -> Iterator[Api]:
    with serving(with_embedder=embedder, database_url=url, auto_index=True) as api:
        yield api


def settled(api: Api, book_id: str, revision: int, status: str) -> bool:
    """Let the service work until the index has this status; False if it never gets it."""
    for _ in range(100):
        api.run(asyncio.sleep(0.05))
        if state(api, book_id, revision)["status"] == status:
            return True
    return False


def hybrid(api: Api, book_id: str, query: str) -> Json:
    body = {"books": [{"book_id": book_id}], "query": query, "strategy": "hybrid"}
    return api("POST", "/v1/context/select", json=body).json()


def test_new_revisions_are_indexed_and_serve_before_that_is_done(
    following: Api, embedder: TinyEmbedder
) -> None:
    entry = {"id": "tide", "content": "ebb", "position": "at_depth"}
    book = {"name": "雾", "entries": [{"id": "fog", "content": "หมอก 🌫️"}, entry]}
    book_id = following.create(book)
    assert settled(following, book_id, 1, "ready")
    assert hybrid(following, book_id, "หมอก 🌫️")["degraded"] == []
    embedder.fails = "off"
    changed = {"name": "雾", "entries": [book["entries"][0], {**entry, "content": "flood"}]}
    following.publish(book_id, 1, changed)
    assert settled(following, book_id, 2, "failed")
    answer = hybrid(following, book_id, "หมอก 🌫️")
    assert answer["degraded"] == [f"index_partial:{book_id}:2"]
    facts = {each["entry_id"]: each["facts"] for each in answer["decisions"]}
    assert facts["fog"]["similarity"] > 0.9
    assert "similarity" not in facts["tide"]
    searched = {"query": "หมอก 🌫️", "books": [{"book_id": book_id}], "mode": "vector"}
    assert code(following("POST", "/v1/search", json=searched)) == "index_not_ready"
    scan = {
        "books": [{"book_id": book_id}],
        "chat": [{"content": "หมอก 🌫️"}],
        "context_tokens": 8_000,
        "vectors": {"messages": 1, "all_entries": True},
    }
    scanned = following("POST", "/v1/sillytavern/activate", json=scan)
    found = scanned.json()["vectors"]
    assert found["degraded"] == [f"index_partial:{book_id}:2"]
    assert [each["id"].rpartition(".")[2] for each in found["entries"]] == ["fog"]
    embedder.fails = None
    done = following.run(build(following, book_id, 2)).json()
    ledger = following("GET", scanned.headers["X-Lorewell-Ledger"].partition("?")[0]).json()
    assert ledger["vectors"] == found
    assert ledger["activated"] == scanned.json()["activated"]
    assert (done["status"], done["usable"]) == ("ready", True)
    assert hybrid(following, book_id, "หมอก 🌫️")["degraded"] == []


def test_a_first_build_of_new_texts_has_nothing_to_serve(api: Api, embedder: TinyEmbedder) -> None:
    book_id = api.create(lore(2))
    embedder.fails = "off"
    assert api.run(build(api, book_id)).status_code == 503
    assert hybrid(api, book_id, "x")["degraded"] == [f"index_not_ready:{book_id}:1"]


def bind(api: Api, prompt_id: str, book_id: str, auto_index: bool | None) -> None:  # noqa: FBT001
    settings = {} if auto_index is None else {"auto_index": auto_index}
    body = {"bindings": [{"book_id": book_id}], "settings": settings}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)


def test_a_prompt_decides_whether_its_books_are_indexed(api: Api) -> None:
    book_id = api.create(lore(1))
    bind(api, "p", book_id, None)
    api.publish(book_id, 1, lore(1, name="a"))
    api.run(asyncio.sleep(0.5))
    assert state(api, book_id, 2)["status"] == "absent"
    bind(api, "q", book_id, auto_index=True)
    api.publish(book_id, 2, lore(1, name="b"))
    assert settled(api, book_id, 3, "ready")


def test_prompts_can_refuse_what_the_service_does(following: Api) -> None:
    book_id = following.create(lore(1))
    assert settled(following, book_id, 1, "ready")
    bind(following, "p", book_id, auto_index=False)
    following.publish(book_id, 1, lore(1, name="a"))
    following.run(asyncio.sleep(0.5))
    assert state(following, book_id, 2)["status"] == "absent"
    bind(following, "q", book_id, None)
    following.publish(book_id, 2, lore(1, name="b"))
    assert settled(following, book_id, 3, "ready")
