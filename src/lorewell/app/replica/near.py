"""How near entries are to a turn of the policy `replica` (docs/rules/replica.md §7.2).

The texts to compare with are embedded while no transaction is open. A revision never changes, so
what its index says can be read after the books were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from lorewell.app.ports import Transaction
from lorewell.app.replica.worlds import ReplicaBook
from lorewell.app.runtime.query_vectors import QueryVector
from lorewell.app.services import Services
from lorewell.app.vectors.indexing import embedding_version
from lorewell.app.vectors.similarities import (
    INDEX_NOT_READY,
    VECTOR_DISABLED,
    best_of_entries,
    find_ready,
    not_ready,
    vector_of,
)
from lorewell.engine.replica import RagScores, rag_queries
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaRequest
from lorewell.model.text import is_blank

MAX_QUERIES: Final = 16
"""Different texts that are embedded for a turn at most: entries can have templates of their own."""

QUERY_BLANK: Final = "query_blank"
QUERY_LIMIT: Final = "query_limit"

Asked = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVectors:
    """The vectors of the texts of a turn.

    Attributes:
        version: of the indexes that they can be compared with; None where there are no vectors.
        by_query: of each text that one was asked for, its vector, or why there is none.
        degraded: why there are none of others.
    """

    version: str | None = None
    by_query: Mapping[str, QueryVector] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        vectors = {query: vector.to_members() for query, vector in self.by_query.items()}
        return {"version": self.version, "by_query": vectors, "degraded": list(self.degraded)}

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        return cls(
            version=members["version"],
            by_query={
                query: QueryVector.from_members(each) for query, each in members["by_query"].items()
            },
            degraded=tuple(members["degraded"]),
        )


def asked_of(books: Iterable[ReplicaBook], request: ReplicaRequest, steps: Steps) -> Asked:
    """Return by book the texts that its entries are to be compared with."""
    worlds = (book.world for book in books if book.world is not None)
    return rag_queries(worlds, request, steps=steps)


async def embed_turn(
    services: Services, tenant_id: str, books: Sequence[ReplicaBook], asked: Asked
) -> TurnVectors:
    """Return the vectors of what is asked of books that have an index; no error, but the causes."""
    if services.embedder is None or services.queries is None:
        return TurnVectors(degraded=(VECTOR_DISABLED,))
    version = embedding_version(services.embedder)
    rows = {book.key: book.row for book in _indexed(books) if book.row is not None}

    def look(tx: Transaction) -> set[tuple[str, int]]:
        return set(find_ready(tx, tenant_id, list(rows.values()), version)[0])

    ready = await services.store.read(look)
    wanted = {
        query: None
        for key, queries in asked.items()
        if (row := rows.get(key)) is not None and (row.book_id, row.revision) in ready
        for query in queries
    }
    texts = [query for query in wanted if not is_blank(query)]
    causes = (QUERY_BLANK,) if len(texts) < len(wanted) else ()
    if len(texts) > MAX_QUERIES:
        texts, causes = texts[:MAX_QUERIES], (*causes, QUERY_LIMIT)
    queries = services.queries
    vectors = await asyncio.gather(*(vector_of(queries, text, version) for text in texts))
    by_query = dict(zip(texts, vectors, strict=True))
    return TurnVectors(version=version, by_query=by_query, degraded=causes)


def _indexed(books: Iterable[ReplicaBook]) -> list[ReplicaBook]:
    """Return the books that are as they are stored."""
    return [book for book in books if book.row is not None and book.changes is None]


def read_scores(
    tx: Transaction,
    tenant_id: str,
    books: Sequence[ReplicaBook],
    asked: Asked,
    vectors: TurnVectors,
) -> RagScores:
    """Return how near all entries are that have an index, and what is missing."""
    if vectors.version is None:
        return RagScores(degraded=vectors.degraded)
    similarities: dict[tuple[str, str], Sequence[float]] = {}
    causes = {*vectors.degraded}
    causes.update(cause for each in vectors.by_query.values() for cause in each.degraded)
    stored = {book.key: book.row for book in _indexed(books) if book.row is not None}
    rows = [stored[key] for key in asked if key in stored]
    ready, _ = find_ready(tx, tenant_id, rows, vectors.version)
    for key, queries in asked.items():
        row = stored.get(key)
        index = None if row is None else ready.get((row.book_id, row.revision))
        if row is None:  # it is stored nowhere as it is
            causes.add(f"{INDEX_NOT_READY}:{key}")
        elif index is None:
            causes.add(not_ready(row.book_id, row.revision))
        else:
            for query in queries:
                vector = vectors.by_query.get(query, QueryVector()).vector
                if vector is not None:
                    scores = tx.similarities(index, vector)
                    near = best_of_entries(scores, row.entry_count)
                    similarities[key, query] = near.tolist()
    return RagScores(similarities=similarities, degraded=tuple(sorted(causes)))
