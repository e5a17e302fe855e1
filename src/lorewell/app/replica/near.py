"""Similarities of entries in a turn of the policy `replica` (docs/rules/replica.md §7.2).

Queries are embedded outside any transaction. A revision never changes, so its index can be read
after the books.
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
from lorewell.app.vectors.similarities import (
    INDEX_NOT_READY,
    VECTOR_DISABLED,
    best_of_entries,
    find_usable,
    not_ready,
    query_source,
    vector_of,
)
from lorewell.engine.replica import RagScores, rag_queries
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaRequest
from lorewell.model.text import is_blank

MAX_QUERIES: Final = 16
"""Maximum distinct queries embedded per turn: entries can have templates of their own."""

QUERY_BLANK: Final = "query_blank"
QUERY_LIMIT: Final = "query_limit"

Queries = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVectors:
    """The vectors of the queries of a turn.

    Attributes:
        version: of the indexes that the vectors can be compared with; None without vectors.
        by_query: of each embedded query, its vector or the causes why there is none.
        degraded: causes why other queries were not embedded.
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


def queries_of(books: Iterable[ReplicaBook], request: ReplicaRequest, steps: Steps) -> Queries:
    """Return, by book, the texts to compare its entries with."""
    worlds = (book.world for book in books if book.world is not None)
    return rag_queries(worlds, request, steps=steps)


async def embed_turn(
    services: Services, tenant_id: str, books: Sequence[ReplicaBook], queries: Queries
) -> TurnVectors:
    """Return the vectors of the queries of indexed books; failures become causes, not errors."""
    source = query_source(services)
    if source is None:
        return TurnVectors(degraded=(VECTOR_DISABLED,))
    query_vectors, version = source
    rows = {book.key: book.row for book in _indexed(books) if book.row is not None}

    def look(tx: Transaction) -> set[tuple[str, int]]:
        return set(find_usable(tx, tenant_id, list(rows.values()), version).rows)

    ready = await services.store.read(look)
    wanted = {
        query: None
        for key, texts in queries.items()
        if (row := rows.get(key)) is not None and (row.book_id, row.revision) in ready
        for query in texts
    }
    embedded = [query for query in wanted if not is_blank(query)]
    causes = (QUERY_BLANK,) if len(embedded) < len(wanted) else ()
    if len(embedded) > MAX_QUERIES:
        embedded, causes = embedded[:MAX_QUERIES], (*causes, QUERY_LIMIT)
    vectors = await asyncio.gather(*(vector_of(query_vectors, text, version) for text in embedded))
    by_query = dict(zip(embedded, vectors, strict=True))
    return TurnVectors(version=version, by_query=by_query, degraded=causes)


def _indexed(books: Iterable[ReplicaBook]) -> list[ReplicaBook]:
    """Return the unchanged stored books."""
    return [book for book in books if book.row is not None and book.changes is None]


def read_scores(
    tx: Transaction,
    tenant_id: str,
    books: Sequence[ReplicaBook],
    queries: Queries,
    vectors: TurnVectors,
) -> RagScores:
    """Return the similarities of the entries of indexed books, and what is missing."""
    if vectors.version is None:
        return RagScores(degraded=vectors.degraded)
    similarities: dict[tuple[str, str], Sequence[float]] = {}
    causes = {*vectors.degraded}
    causes.update(cause for each in vectors.by_query.values() for cause in each.degraded)
    stored = {book.key: book.row for book in _indexed(books) if book.row is not None}
    rows = [stored[key] for key in queries if key in stored]
    usable = find_usable(tx, tenant_id, rows, vectors.version)
    causes.update(usable.partial)
    for key, texts in queries.items():
        row = stored.get(key)
        index = None if row is None else usable.rows.get((row.book_id, row.revision))
        if row is None:  # given or changed in the request
            causes.add(f"{INDEX_NOT_READY}:{key}")
        elif index is None:
            causes.add(not_ready(row.book_id, row.revision))
        else:
            for query in texts:
                vector = vectors.by_query.get(query, QueryVector()).vector
                if vector is not None:
                    scores = tx.similarities(index, vector)
                    near = best_of_entries(scores, row.entry_count)
                    similarities[key, query] = near.tolist()
    return RagScores(similarities=similarities, degraded=tuple(sorted(causes)))
