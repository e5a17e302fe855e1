"""Vector indexes: builds, chunks, vectors shared by texts, and how near they are to a query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from contract.harness import Harness, execute, opened
from contract.rows import START, add_book, at, binding, head, revision, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import Chunk, IndexRow, StoredBindings
from lorewell.errors import LorewellError
from lorewell.store import open_store
from lorewell.store.postgres import PostgresStore

VERSION = "小模型:latest/3+1'000"  # what a name can hold, a colon and a quote too
WIDE = f"{VERSION}/16"  # its index stays, and takes no vectors of another length
EAST = np.array([1, 0, 0], np.float32)
NORTH = np.array([0, 1, 0], np.float32)
LOOKED_AT = 500  # vectors, before a search of the index gives up; 20,000 by default
BETWEEN = np.array([0.6, 0.8, 0], np.float32)


def row(number: int = 1, revision: int = 1, **fields: Any) -> IndexRow:
    values: dict[str, Any] = {
        "tenant_id": "a",
        "book_id": uuid(number),
        "revision": revision,
        "embedding_version": VERSION,
        "status": "building",
        "build_id": f"build-{number}-{revision}",
        "updated_at": START,
    }
    return IndexRow(**(values | fields))


def build(
    tx: Transaction,
    index: IndexRow,
    vectors: dict[str, Any],
    chunks: list[Chunk] | None = None,
) -> IndexRow:
    """Make a whole index in one transaction; without chunks a vector is that of an entry."""
    ready = replace(
        index,
        status="ready",
        chunk_count=len(vectors),
        done=len(vectors),
        ready_version=index.embedding_version,
        quiet="{}",
        ready_build_id=index.build_id,
    )
    tx.put_index(ready)
    tx.put_embeddings(index.tenant_id, index.embedding_version, vectors, at(0))
    made = chunks or [Chunk(place, 0, name) for place, name in enumerate(vectors)]
    tx.put_chunks(index.tenant_id, index.book_id, index.revision, index.embedding_version, made)
    return ready


@pytest.fixture
def filled(db: Harness) -> Harness:
    for number in (1, 2):
        db.write(add_book(number))
    db.write(add_book(1, tenant_id="b"))
    return db


def test_index_comes_back_as_it_was_put(filled: Harness) -> None:
    mine = row(lease_until=at(5), error="雾", chunk_count=7, done=3)
    assert filled.write(lambda tx: tx.add_index(mine)) is True
    assert filled.read(lambda tx: tx.find_index("a", uuid(1), 1)) == mine
    assert filled.write(lambda tx: tx.add_index(row(error="other"))) is False
    assert filled.read(lambda tx: tx.find_index("a", uuid(1), 1)) == mine
    ended = replace(mine, status="failed", lease_until=None)
    filled.write(lambda tx: tx.put_index(ended))
    assert filled.write(lambda tx: tx.find_index("a", uuid(1), 1, lock=True)) == ended
    assert filled.read(lambda tx: tx.find_index("b", uuid(1), 1)) is None
    names = [(uuid(1), 1), (uuid(2), 1), (uuid(1), 2**70)]
    assert filled.read(lambda tx: tx.find_indexes("a", names)) == {names[0]: ended}
    assert filled.read(lambda tx: tx.find_indexes("a", ())) == {}


def test_index_of_no_revision_is_refused(filled: Harness) -> None:
    with pytest.raises(LorewellError):
        filled.write(lambda tx: tx.put_index(row(revision=2)))


def test_only_the_build_that_runs_advances(filled: Harness) -> None:
    mine = row()
    filled.write(lambda tx: tx.put_index(mine))
    counted = replace(mine, chunk_count=9)

    def advance(index: IndexRow) -> bool:
        times = {"lease_until": at(10), "updated_at": at(4)}
        return filled.write(lambda tx: tx.advance_index(index, done=2, **times))

    assert advance(counted)
    found = filled.read(lambda tx: tx.find_index("a", uuid(1), 1))
    assert found == replace(counted, done=2, lease_until=at(10), updated_at=at(4))
    assert not advance(replace(mine, build_id="another"))
    filled.write(lambda tx: tx.put_index(replace(counted, status="failed")))
    assert not advance(counted)


def test_vectors_belong_to_texts(filled: Harness) -> None:
    vectors = {f"text-{number}": EAST for number in range(1_200)}
    filled.write(lambda tx: tx.put_embeddings("a", VERSION, vectors, at(0)))
    asked = [*vectors, "unknown"]
    known = filled.read(lambda tx: tx.known_texts("a", VERSION, asked))
    assert known == frozenset(vectors)
    assert not filled.read(lambda tx: tx.known_texts("a", "other", asked))
    assert not filled.read(lambda tx: tx.known_texts("b", VERSION, asked))
    assert not filled.read(lambda tx: tx.known_texts("a", VERSION, ()))


def test_similarities_are_cosines_of_all_chunks(filled: Harness) -> None:
    chunks = [Chunk(0, 0, "e"), Chunk(4, 0, "n"), Chunk(4, 1000, "b"), Chunk(7, 0, "e")]
    vectors = {"e": EAST, "n": NORTH, "b": BETWEEN}
    ready = filled.write(lambda tx: build(tx, row(), vectors, chunks))
    scores = filled.read(lambda tx: tx.similarities(ready, BETWEEN))
    found = sorted(zip(*(each.tolist() for each in scores), strict=True))
    assert [each[:2] for each in found] == [(0, 0), (4, 0), (4, 1000), (7, 0)]
    assert [each[2] for each in found] == pytest.approx([0.6, 0.8, 1.0, 0.6], abs=1e-6)


def test_revision_without_chunks_is_near_to_nothing(filled: Harness) -> None:
    ready = filled.write(lambda tx: build(tx, row(), {}))
    scores = filled.read(lambda tx: tx.similarities(ready, EAST))
    assert [len(each) for each in scores] == [0, 0, 0]


def test_another_build_replaces_chunks_and_vectors(filled: Harness) -> None:
    filled.write(lambda tx: build(tx, row(), {"one": EAST, "two": EAST}))
    again = row(build_id="again")
    ready = filled.write(lambda tx: build(tx, again, {"one": NORTH}))
    scores = filled.read(lambda tx: tx.similarities(ready, NORTH))
    assert scores.similarities.tolist() == [1.0]


def test_chunk_needs_its_vector(filled: Harness) -> None:
    filled.write(lambda tx: tx.put_index(row()))
    with pytest.raises(LorewellError):
        filled.write(lambda tx: tx.put_chunks("a", uuid(1), 1, VERSION, [Chunk(0, 0, "none")]))


def test_vectors_that_nothing_names_are_dropped_when_old(filled: Harness) -> None:
    filled.write(lambda tx: build(tx, row(), {"used": EAST}))
    filled.write(lambda tx: tx.put_embeddings("a", VERSION, {"old": EAST}, at(0)))
    filled.write(lambda tx: tx.put_embeddings("b", VERSION, {"old": EAST}, at(0)))
    filled.write(lambda tx: tx.put_embeddings("a", VERSION, {"new": EAST}, at(9)))
    assert filled.write(lambda tx: tx.drop_embeddings("a", at(5))) == 1
    known = filled.read(lambda tx: tx.known_texts("a", VERSION, ["used", "old", "new"]))
    assert known == {"used", "new"}
    assert filled.read(lambda tx: tx.known_texts("b", VERSION, ["old"])) == {"old"}


def test_a_tenant_is_searched_in_latest_revisions_alone(filled: Harness) -> None:
    filled.write(lambda tx: build(tx, row(1), {"e": EAST, "b": BETWEEN}))
    filled.write(lambda tx: build(tx, row(2), {"e": EAST, "n": NORTH}))
    filled.write(lambda tx: build(tx, row(1, tenant_id="b", build_id="b"), {"e": EAST}))

    def near(limit: int = 10) -> list[tuple[str, int]]:
        found = filled.read(lambda tx: tx.near_chunks("a", VERSION, EAST, limit=limit))
        assert [each.similarity for each in found] == sorted(
            (each.similarity for each in found), reverse=True
        )
        return [(each.book_id, each.place) for each in found]

    assert near() == [(uuid(1), 0), (uuid(2), 0), (uuid(1), 1), (uuid(2), 1)]
    assert near(2) == [(uuid(1), 0), (uuid(2), 0)]

    def publish(tx: Transaction) -> None:
        tx.insert_revision(revision(2, 2), b"{}")
        tx.advance_book("a", uuid(2), revision=2, name="x", updated_at=START)

    filled.write(publish)
    assert near() == [(uuid(1), 0), (uuid(1), 1)]
    filled.write(lambda tx: tx.set_deleted("a", uuid(1), deleted_at=START, updated_at=START))
    assert near() == []
    assert not filled.read(lambda tx: tx.near_chunks("a", "other", EAST, limit=3))


def test_revisions_in_use_are_listed_with_their_index(filled: Harness) -> None:
    ready = filled.write(lambda tx: build(tx, row(1), {"e": EAST}))
    running = row(2, embedding_version="other")
    filled.write(lambda tx: tx.put_index(running))

    def publish(tx: Transaction) -> None:
        tx.insert_revision(revision(1, 2), b"{}")
        tx.advance_book("a", uuid(1), revision=2, name="x", updated_at=START)
        tx.insert_book(head(3, deleted_at=START))

    filled.write(publish)

    def listed(**asked: Any) -> list[Any]:
        values = {"limit": 9, "after": None, "not_ready_for": None, **asked}
        return list(filled.read(lambda tx: tx.list_indexes("a", **values)))

    newest = [(uuid(1), 2, None), (uuid(2), 1, running)]
    assert listed() == newest
    pinned = StoredBindings(policy="auto", bindings=(binding(1, revision=1), binding(2)))
    filled.write(lambda tx: tx.put_bindings("a", "p", pinned))
    assert listed() == [(uuid(1), 1, ready), *newest]
    assert listed(not_ready_for=VERSION) == newest
    assert listed(not_ready_for="other") == [(uuid(1), 1, ready), *newest]
    assert listed(limit=1) == [(uuid(1), 1, ready)]
    assert listed(after=(uuid(1), 1)) == newest


def test_a_large_tenant_gets_an_index_and_the_same_answers(
    db: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorewell.store.vectors_pgvector._MIN_INDEXED", 200)
    rng = np.random.default_rng(7)
    made = rng.normal(size=(300, 16)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    vectors = {f"text-{number}": vector for number, vector in enumerate(made)}
    db.write(add_book(1))
    db.write(lambda tx: build(tx, row(embedding_version=WIDE), vectors))
    query = made[5]

    def near() -> list[tuple[int, float]]:
        found = db.read(lambda tx: tx.near_chunks("a", WIDE, query, limit=10))
        return [(each.place, round(each.similarity, 5)) for each in found]

    exact = sorted(enumerate((made @ query).tolist()), key=lambda each: -each[1])[:10]
    assert near() == [(place, pytest.approx(found, abs=1e-5)) for place, found in exact]
    for _ in range(2):  # what is there is not made again
        db.run(db.store.prepare_tenant_search(WIDE, 16))
    assert near() == [(place, pytest.approx(found, abs=1e-5)) for place, found in exact]
    if isinstance(db.store, PostgresStore):
        plan = db.read(lambda tx: _plan(tx, query))
        assert "Index Scan using hnsw_" in plan
        assert db.read(_is_known)  # else it is not taken where all vectors are one tenant's
    db.write(lambda tx: tx.drop_embeddings("a", START + timedelta(days=1)))


def _is_known(tx: Any) -> bool:
    from sqlalchemy import text  # noqa: PLC0415

    known = "SELECT 1 FROM pg_stats WHERE tablename = 'embeddings' AND attname = 'tenant_id'"
    return bool(tx._execute(text(known), {}).all())


def _plan(tx: Any, query: Any) -> str:
    from sqlalchemy import text  # noqa: PLC0415

    from lorewell.store.vectors_pgvector import _near  # noqa: PLC0415

    tx._execute(text("SET LOCAL enable_sort = off"), {})
    tx._execute(text("SET LOCAL enable_bitmapscan = off"), {})
    near = _near(WIDE, 16)
    statement = text(f"EXPLAIN {near.text}").bindparams(*near._bindparams.values())
    values = {"tenant": "a", "query": query, "candidates": 100, "most": 10}
    return "\n".join(row[0] for row in tx._execute(statement, values))


def test_a_text_that_is_about_to_get_a_name_is_not_dropped(url: str) -> None:
    """Two builds end at the same time: one takes up again what the other would throw away."""
    looked = threading.Event()

    def name(tx: Transaction) -> None:
        tx.hold_texts("a")
        assert tx.known_texts("a", "v", ["old"])
        looked.set()
        time.sleep(0.3)  # the other one has its chance
        tx.put_index(row(embedding_version="v"))
        tx.put_chunks("a", uuid(1), 1, "v", [Chunk(0, 0, "old")])

    def drop(tx: Transaction) -> int:
        tx.hold_texts("a")
        return tx.drop_embeddings("a", at(5))

    def beside() -> int:
        with opened(open_store(url)) as other:
            looked.wait(10)
            return other.write(drop)

    with opened(open_store(url)) as db, ThreadPoolExecutor(1) as threads:
        db.write(add_book(1))
        db.write(lambda tx: tx.put_embeddings("a", "v", {"old": EAST}, at(0)))
        dropped = threads.submit(beside)
        db.write(name)
        assert dropped.result() == 0
        assert db.read(lambda tx: tx.known_texts("a", "v", ["old"])) == {"old"}


def unit_rows(count: int, seed: int, dimensions: int = 16) -> Any:
    made = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def nearest(db: Harness, query: Any, limit: int = 10) -> list[tuple[str, int]]:
    found = db.read(lambda tx: tx.near_chunks("a", VERSION, query, limit=limit))
    return [(each.book_id, each.place) for each in found]


@pytest.fixture
def large(
    make_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Harness, Callable[[], None]]]:
    """Yield a store on PostgreSQL and a function that makes its index, and knows its tables."""
    monkeypatch.setattr("lorewell.store.vectors_pgvector._MIN_INDEXED", 200)
    url = make_database()
    name = urlsplit(url).path.removeprefix("/")
    execute(url, f"ALTER DATABASE {name} SET hnsw.max_scan_tuples = {LOOKED_AT}")
    with opened(open_store(url)) as db:

        def prepare() -> None:
            db.run(db.store.prepare_tenant_search(VERSION, 16))
            execute(url, "ANALYZE")

        yield db, prepare


def test_a_small_tenant_among_large_ones_finds_its_own(
    large: tuple[Harness, Callable[[], None]],
) -> None:
    db, prepare = large
    own, query = unit_rows(300, 1), unit_rows(1, 2)[0]
    own -= 3 * query  # far away: all others are nearer
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    db.write(add_book(1))
    db.write(lambda tx: build(tx, row(), {f"own-{n:03}": v for n, v in enumerate(own)}))
    others = {f"other-{n}": vector for n, vector in enumerate(unit_rows(5 * LOOKED_AT, 3))}
    db.write(lambda tx: tx.put_embeddings("b", VERSION, others, at(0)))
    expected = np.argsort(-(own @ query), kind="stable").tolist()
    prepare()
    assert [place for _, place in nearest(db, query)] == expected[:10]
    assert [place for _, place in nearest(db, query, 1_000)] == expected
    # Where the planner takes the index all the same, it gives up before it comes to this tenant.
    assert db.read(lambda tx: _by_index(tx, query)) == expected[:10]


def _by_index(tx: Any, query: Any) -> list[int]:
    from sqlalchemy import text  # noqa: PLC0415

    for setting in ("enable_sort", "enable_bitmapscan"):
        tx._execute(text(f"SET LOCAL {setting} = off"), {})
    return [chunk.place for chunk in tx.near_chunks("a", VERSION, query, limit=10)]


def test_old_revisions_do_not_hide_the_latest(
    large: tuple[Harness, Callable[[], None]],
) -> None:
    db, prepare = large
    query = unit_rows(1, 2)[0]
    old, new = unit_rows(3_000, 3), unit_rows(40, 4)
    old += 3 * query  # near to it, all of them
    old /= np.linalg.norm(old, axis=1, keepdims=True)
    db.write(add_book(1))
    db.write(lambda tx: build(tx, row(), {f"old-{n}": v for n, v in enumerate(old)}))

    def publish(tx: Transaction) -> None:
        tx.insert_revision(revision(1, 2), b"{}")
        tx.advance_book("a", uuid(1), revision=2, name="x", updated_at=START)
        build(tx, row(1, 2), {f"new-{n}": v for n, v in enumerate(new)})

    db.write(publish)
    expected = np.argsort(-(new @ query), kind="stable").tolist()
    prepare()
    assert [place for _, place in nearest(db, query)] == expected[:10]
    assert [place for _, place in nearest(db, query, 100)] == expected
