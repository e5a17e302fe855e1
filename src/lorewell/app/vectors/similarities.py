"""Similarities of the entries of a request's books, or the causes why there are none.

Source: docs/rules/native.md §9.2, §9.3.

The query is embedded before the transaction, and only if all indexes are ready. The transaction
that reads the books also reads the similarities.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lorewell.app.loaded import find_rows
from lorewell.app.ports import Transaction
from lorewell.app.rows import ChunkScores, IndexRow, RevisionRow
from lorewell.app.runtime.query_vectors import QueryVector, QueryVectors
from lorewell.app.services import Services
from lorewell.app.vectors.indexing import embedding_version
from lorewell.app.vectors.quiet import read_scales
from lorewell.engine.native import VectorScores
from lorewell.errors import EmbeddingUnavailableError
from lorewell.model import BookRef

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float64
    from numpy.typing import NDArray

VECTOR_DISABLED = "vector_disabled"
EMBEDDING_UNAVAILABLE = "embedding_unavailable"
INDEX_NOT_READY = "index_not_ready"
INDEX_PARTIAL = "index_partial"


async def embed_query(
    services: Services,
    tenant_id: str,
    refs: Sequence[BookRef],
    query: str,
    *,
    partial: bool = False,
) -> QueryVector:
    """Return the vector of a query over books; failures become causes, not errors.

    With `partial`, indexes that are being built for the first time will do.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
    """
    source = query_source(services)
    if source is None:
        return QueryVector(degraded=(VECTOR_DISABLED,))
    queries, version = source

    def look(tx: Transaction) -> tuple[str, ...]:
        rows = find_rows(tx, tenant_id, refs)
        if partial:
            return find_usable(tx, tenant_id, rows, version).missing
        return find_ready(tx, tenant_id, rows, version)[1]

    missing = await services.store.read(look)
    if missing:
        return QueryVector(degraded=missing)
    return await vector_of(queries, query, version)


def query_source(services: Services) -> tuple[QueryVectors, str] | None:
    """Return the query vectors and their embedding version; None if vectors are off."""
    if services.embedder is None or services.queries is None:
        return None
    return services.queries, embedding_version(services.embedder)


async def vector_of(queries: QueryVectors, text: str, version: str) -> QueryVector:
    """Return the vector of a text, or the cause why there is none now."""
    try:
        return QueryVector(await queries.get(text), version)
    except EmbeddingUnavailableError:
        return QueryVector(degraded=(EMBEDDING_UNAVAILABLE,))


def find_ready(
    tx: Transaction, tenant_id: str, revisions: Sequence[RevisionRow], version: str
) -> tuple[Mapping[tuple[str, int], IndexRow], tuple[str, ...]]:
    """Return the indexes that are ready for an embedding version, and causes for the others."""
    names = [(row.book_id, row.revision) for row in revisions]
    found = tx.find_indexes(tenant_id, names)
    ready = {name: row for name, row in found.items() if row.ready_version == version}
    missing = {not_ready(*name) for name in names if name not in ready}
    return ready, tuple(sorted(missing))


class UsableIndexes(NamedTuple):
    """The indexes of revisions that can be used for an embedding version.

    Attributes:
        rows: by book id and revision; ready, or with the vectors of texts that had them before.
        missing: causes for the revisions without any.
        partial: causes for the indexes that are not complete.
    """

    rows: Mapping[tuple[str, int], IndexRow]
    missing: tuple[str, ...]
    partial: tuple[str, ...]


def find_usable(
    tx: Transaction, tenant_id: str, revisions: Sequence[RevisionRow], version: str
) -> UsableIndexes:
    """Return the indexes that a turn can use, also those that are not complete."""
    names = [(row.book_id, row.revision) for row in revisions]
    found = tx.find_indexes(tenant_id, names)
    ready = {name: row for name, row in found.items() if row.ready_version == version}
    begun = {
        name: row
        for name, row in found.items()
        if row.ready_version is None and row.partial_version == version
    }
    usable = ready | begun
    return UsableIndexes(
        rows=usable,
        missing=tuple(sorted({not_ready(*name) for name in names if name not in usable})),
        partial=tuple(sorted(partly_ready(*name) for name in begun)),
    )


def not_ready(book_id: str, revision: int) -> str:
    """Return the cause for a revision without a usable index."""
    return f"{INDEX_NOT_READY}:{book_id}:{revision}"


def partly_ready(book_id: str, revision: int) -> str:
    """Return the cause for a revision whose index lacks vectors of changed texts."""
    return f"{INDEX_PARTIAL}:{book_id}:{revision}"


def read_near(
    tx: Transaction, tenant_id: str, revisions: Sequence[RevisionRow], query: QueryVector
) -> tuple[QueryVector, list[ChunkScores]]:
    """Return the query that was used, and the chunk similarities of each revision.

    Without a vector, or if an index is no longer ready, there are none, and the query has the
    causes.
    """
    vector, version = query.vector, query.embedding_version
    if vector is None or version is None:
        return query, []
    ready, missing = find_ready(tx, tenant_id, revisions, version)
    if missing:  # a new revision was published in between
        return QueryVector(degraded=missing), []
    return query, [tx.similarities(ready[row.book_id, row.revision], vector) for row in revisions]


def scores_of(
    tx: Transaction, tenant_id: str, revisions: Sequence[RevisionRow], query: QueryVector
) -> VectorScores:
    """Return the similarity of each entry of these revisions to the query.

    Entries whose texts have no vector yet have none.
    """
    vector, version = query.vector, query.embedding_version
    if vector is None or version is None:
        return VectorScores(degraded=query.degraded)
    usable = find_usable(tx, tenant_id, revisions, version)
    if usable.missing:  # a new revision was published in between
        return VectorScores(degraded=usable.missing)
    similarities = {
        (row.book_id, row.revision): best_of_entries(
            tx.similarities(usable.rows[row.book_id, row.revision], vector), row.entry_count
        )
        for row in revisions
    }
    return VectorScores(
        similarities=similarities,
        scales={name: read_scales(row) for name, row in usable.rows.items()},
        embedding_version=version,
        partial=usable.partial,
    )


def degrade(vectors: VectorScores, missing: Collection[str]) -> VectorScores:
    """Return the scores; if books lack an index, return the causes instead."""
    if not missing:
        return vectors
    causes = [cause for cause in vectors.degraded if cause.startswith(INDEX_NOT_READY)]
    return VectorScores(degraded=tuple(sorted({*causes, *missing})))


def best_of_entries(scores: ChunkScores, entry_count: int) -> NDArray[float64]:
    """Return the similarity of each entry's best chunk in stored order, NaN where it has none."""
    import numpy as np  # noqa: PLC0415  see above

    best = np.full(entry_count, np.nan)
    np.fmax.at(best, scores.places, scores.similarities)
    return best
