"""Builds of vector indexes by a real server that is killed in their midst."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedding import DIMENSIONS
from embedding_server import EmbeddingServer, embedding_server
from process import Server, running

ENTRIES, BATCH, LEASE_S = 120, 4, 2.0
BATCHES_AT_ONCE = 2
QUERY = "ใครเฝ้า灯塔 🏮 42"
_VECTORS = "SELECT text_hash FROM embeddings"
_CHUNKS = "SELECT text_hash FROM chunks"
_SHOWN = (
    "SELECT c.text_hash FROM chunks c JOIN vector_indexes i ON i.tenant_id = c.tenant_id "
    "AND i.book_id = c.book_id AND i.revision = c.revision AND i.status = 'ready' "
    "AND i.embedding_version = c.embedding_version"
)
_SHORT = (
    "SELECT i.revision FROM vector_indexes i WHERE i.status = 'ready' AND i.chunk_count <> "
    "(SELECT count(*) FROM chunks c WHERE c.tenant_id = i.tenant_id AND c.book_id = i.book_id "
    "AND c.revision = i.revision)"
)


def settings(url: str, server: EmbeddingServer, **others: Any) -> dict[str, Any]:
    """Return the settings of a server that builds in small steps."""
    return {
        "database_url": url,
        "log_level": "warning",
        "embedder": "openai",
        "embedding_url": server.url,
        "embedding_model": "tiny",
        "embedding_dimensions": DIMENSIONS,
        "embedding_batch_size": BATCH,
        "embedding_concurrency": BATCHES_AT_ONCE,
        "embedding_retries": 0,
        "index_lease_s": LEASE_S,
        **others,
    }


def rows(url: str, statement: str) -> list[str]:
    """Return the first column of what a statement finds in a database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return [row[0] for row in connection.execute(statement)]
    return asyncio.run(_rows(url, statement))


async def _rows(url: str, statement: str) -> list[str]:
    import asyncpg  # noqa: PLC0415  it need not be installed

    connection: Any = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def book(number: int = 0) -> dict[str, Any]:
    """Return a book of which half of the entries are the same whatever the number."""
    entries = [
        {"id": f"e{n}", "title": f"灯塔 {n}", "content": f"ยาม {n * number if n % 2 else n} 🏮"}
        for n in range(ENTRIES)
    ]
    return {"name": "雾隐渡", "entries": entries}


def check_rows(url: str) -> None:
    """Every vector is named by a chunk and every chunk has one; what is ready is whole."""
    vectors, chunks, shown = (rows(url, statement) for statement in (_VECTORS, _CHUNKS, _SHOWN))
    assert sorted(vectors) == sorted(set(chunks))
    assert sorted(chunks) == sorted(shown)
    assert rows(url, _SHORT) == []


def ask(server: Server, book_id: str) -> dict[str, Any]:
    """Return a selection by words and vectors; every one of them must be answered."""
    body = {"books": [{"book_id": book_id}], "query": QUERY, "strategy": "hybrid"}
    answer = server.client.post("/v1/context/select", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@dataclass(slots=True)
class Builds:
    """What a campaign did.

    Attributes:
        kills: how many servers were killed.
        midst: how many of them while they built.
        looks: how often an index that was being built was looked at.
        again: texts that were embedded more than once.
    """

    kills: int = 0
    midst: int = 0
    looks: int = 0
    again: int = 0


def kill_builds(url: str, log: Path, *, kills: int, seed: int) -> Builds:
    """Begin builds on servers that are killed; another one watches, and builds again."""
    rng, counts = random.Random(seed), Builds()
    with embedding_server() as embedder, running(log, **settings(url, embedder)) as watcher:
        created = watcher.client.post("/v1/books", json=book())
        book_id = created.json()["books"][0]["book_id"]
        for revision in range(1, kills + 1):
            victim = Server(log, **settings(url, embedder))
            embedder.hang(0.05)
            begun = victim.client.post(
                f"/v1/books/{book_id}/index",
                json={"revision": revision},
                params={"background": "true"},
            )
            assert begun.status_code == 202, begun.text
            until = time.monotonic() + rng.uniform(0.05, 1.0)
            while time.monotonic() < until:
                counts.looks += _look(watcher, book_id, revision)
            victim.kill()
            counts.kills += 1
            embedder.behave()
            _build_again(url, watcher, embedder, (book_id, revision), counts)
            named = {"expected_revision": revision, **book(revision)}
            published = watcher.client.post(f"/v1/books/{book_id}/revisions", json=named)
            assert published.status_code == 201, published.text
    return counts


def _look(server: Server, book_id: str, revision: int) -> bool:
    """Return whether the index was being built before and after a selection."""
    states = [_state(server, book_id, revision)]
    found = ask(server, book_id)
    states.append(_state(server, book_id, revision))
    if {state["status"] for state in states} != {"building"}:
        return False
    assert states[0]["done"] <= states[1]["done"] <= ENTRIES
    assert found["degraded"] == [f"index_not_ready:{book_id}:{revision}"]
    assert not any("similarity" in each["facts"] for each in found["decisions"])
    body = {"books": [{"book_id": book_id}], "query": QUERY, "mode": "vector"}
    refused = server.client.post("/v1/search", json=body)
    is_built = _state(server, book_id, revision)["status"] == "ready"
    assert is_built or refused.json()["code"] == "index_not_ready"
    return True


def _state(server: Server, book_id: str, revision: int) -> dict[str, Any]:
    params = {"revision": revision}
    found: dict[str, Any] = server.client.get(f"/v1/books/{book_id}/index", params=params).json()
    return found


def _build_again(
    url: str, server: Server, embedder: EmbeddingServer, named: tuple[str, int], counts: Builds
) -> None:
    book_id, revision = named
    path, body = f"/v1/books/{book_id}/index", {"revision": revision}
    found = _state(server, book_id, revision)
    if found["status"] == "building":
        counts.midst += 1
        busy = server.client.post(path, json=body)
        still = _state(server, book_id, revision)["status"] == "building"
        assert busy.status_code == 409 or not still, busy.text
        until = time.monotonic() + LEASE_S + 5
        while (found := _state(server, book_id, revision))["status"] == "building":
            assert time.monotonic() < until
            time.sleep(0.05)
    if found["status"] == "failed":
        assert found["error"] == "The build stopped without an error. Build the index again."
        assert found["usable"] is False
        assert not rows(url, f"SELECT place FROM chunks WHERE revision = {revision}")  # noqa: S608
    known, sent = len(rows(url, _VECTORS)), len(embedder.texts)
    built = server.client.post(path, json=body)
    assert (built.status_code, built.json()["status"]) == (200, "ready"), built.text
    assert built.json()["done"] == built.json()["chunk_count"] == ENTRIES
    added = len(rows(url, _VECTORS)) - known
    assert len(embedder.texts) - sent == added  # what was kept is not embedded again
    counts.again = len(embedder.texts) - len(set(embedder.texts))
    assert counts.again <= counts.kills * BATCH * BATCHES_AT_ONCE
    assert ask(server, book_id)["degraded"] == []
    check_rows(url)
