"""Vector search with pgvector: exact within a revision, by an HNSW index within a tenant."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Float, TextClause, bindparam, func, select, text, true
from sqlalchemy.ext.asyncio import AsyncConnection

from lorewell.app.rows import ChunkScores, IndexRow, NearChunk
from lorewell.store.tables import Vector, chunks, embeddings
from lorewell.store.vectors import VectorStatements

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_MIN_INDEXED = 20_000  # vectors; for fewer, a scan is fast enough
_MAX_DIMENSIONS = 4_000  # of an HNSW index of halfvec
_CANDIDATES = (200, 1_000)  # chunks that are compared exactly, at least and at most
_SPARE = 2  # candidates per result: halfvec is inexact, and old revisions are dropped
_LOCK = int.from_bytes(b"lorehnsw")
# Two keys, so that it never equals one of the locks with one key.
_HOLD = text("SELECT pg_advisory_xact_lock(:space, hashtext(:tenant))").bindparams(
    space=int.from_bytes(b"lore")
)
_TAKE_TURN = text("SELECT pg_try_advisory_lock(:name)").bindparams(name=_LOCK)
_END_TURN = text("SELECT pg_advisory_unlock(:name)").bindparams(name=_LOCK)
_ENOUGH = text("SELECT 1 FROM embeddings WHERE embedding_version = :version OFFSET :many LIMIT 1")
_IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
_MAKE = """
CREATE INDEX CONCURRENTLY {name} ON embeddings
USING hnsw ((vector::halfvec({dimensions})) halfvec_cosine_ops)
WHERE embedding_version = {version}
"""
# As arrays: pgvector would send text, which takes the event loop ten times as long.
_PUT = text("""
INSERT INTO embeddings (tenant_id, embedding_version, text_hash, vector, made_at)
VALUES (:tenant, :version, :text_hash, CAST(CAST(:numbers AS real[]) AS vector), :made_at)
ON CONFLICT (tenant_id, embedding_version, text_hash)
DO UPDATE SET vector = excluded.vector, made_at = excluded.made_at
""")
# Lateral, as below: otherwise the planner may read all vectors of all tenants.
_KEPT = (
    select(embeddings.c.vector)
    .where(
        embeddings.c.tenant_id == chunks.c.tenant_id,
        embeddings.c.embedding_version == chunks.c.embedding_version,
        embeddings.c.text_hash == chunks.c.text_hash,
    )
    .offset(0)
    .lateral("kept")
)
_DISTANCE = _KEPT.c.vector.op("<=>", return_type=Float())(bindparam("query", type_=Vector))
_OF_REVISION = (
    select(
        func.array_agg(chunks.c.place).label("places"),
        func.array_agg(chunks.c.start).label("starts"),
        func.array_agg(1 - _DISTANCE).label("similarities"),
    )
    .join(_KEPT, true())
    .where(
        chunks.c.tenant_id == bindparam("tenant"),
        chunks.c.book_id == bindparam("book"),
        chunks.c.revision == bindparam("number"),
    )
)
# OFFSET 0 fixes the order of the joins: without it, the planner may scan all chunks for each
# candidate while its statistics are poor. The version is a literal, because the planner can't use a
# partial index with a parameter.
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT text_hash, 1 - (vector <=> :query) AS similarity
    FROM embeddings
    WHERE tenant_id = :tenant AND embedding_version = {version}
    ORDER BY {vector} <=> {query}
    LIMIT :candidates
)
SELECT found.book_id, found.revision, found.place, found.start, near.similarity
FROM near
CROSS JOIN LATERAL (
    SELECT book_id, revision, place, start FROM chunks
    WHERE tenant_id = :tenant AND embedding_version = {version} AND text_hash = near.text_hash
    OFFSET 0
) AS found
CROSS JOIN LATERAL (
    SELECT 1 FROM books
    WHERE tenant_id = :tenant AND book_id = found.book_id
        AND latest_revision = found.revision AND deleted_at IS NULL
    OFFSET 0
) AS shown
CROSS JOIN LATERAL (
    SELECT 1 FROM vector_indexes
    WHERE tenant_id = :tenant AND book_id = found.book_id AND revision = found.revision
        AND ready_version = {version}
    OFFSET 0
) AS ready
ORDER BY similarity DESC, book_id, revision, place, start
LIMIT :most
"""
_ALL = text("""
SELECT shown.book_id, shown.revision, found.place, found.start, found.similarity
FROM (
    SELECT books.book_id, vector_indexes.revision
    FROM books
    JOIN vector_indexes ON vector_indexes.tenant_id = books.tenant_id
        AND vector_indexes.book_id = books.book_id
        AND vector_indexes.revision = books.latest_revision
    WHERE books.tenant_id = :tenant AND books.deleted_at IS NULL
        AND vector_indexes.ready_version = :version
    OFFSET 0
) AS shown
CROSS JOIN LATERAL (
    SELECT chunks.place, chunks.start, 1 - (kept.vector <=> :query) AS similarity
    FROM chunks
    CROSS JOIN LATERAL (
        SELECT vector FROM embeddings
        WHERE tenant_id = :tenant AND embedding_version = :version
            AND text_hash = chunks.text_hash
        OFFSET 0
    ) AS kept
    WHERE chunks.tenant_id = :tenant AND chunks.book_id = shown.book_id
        AND chunks.revision = shown.revision
    OFFSET 0
) AS found
ORDER BY similarity DESC, book_id, revision, place, start
LIMIT :most
""").bindparams(bindparam("query", type_=Vector))


class PgVectors(VectorStatements):
    """Storage and search of vectors in a transaction on PostgreSQL."""

    def hold_texts(self, tenant_id: str) -> None:
        """Take an advisory lock until this transaction ends."""
        self._execute(_HOLD, {"tenant": tenant_id})

    def put_embeddings(
        self,
        tenant_id: str,
        embedding_version: str,
        vectors: Mapping[str, NDArray[float32]],
        made_at: datetime,
    ) -> None:
        """Store vectors by the hash of their text, replacing existing ones."""
        named = {"tenant": tenant_id, "version": embedding_version, "made_at": made_at}
        rows = [
            {**named, "text_hash": text_hash, "numbers": vectors[text_hash].tolist()}
            for text_hash in sorted(vectors)  # as in the base class, against deadlocks
        ]
        if rows:
            self._execute(_PUT, rows)

    def similarities(self, index: IndexRow, query: NDArray[float32]) -> ChunkScores:
        """Return the similarity of each chunk of a ready index to a query vector of length 1."""
        import numpy as np  # noqa: PLC0415  services without vectors never load numpy

        named = {"tenant": index.tenant_id, "book": index.book_id, "number": index.revision}
        (row,) = self._rows(_OF_REVISION, **named, query=query)
        return ChunkScores(
            np.array(row["places"] or (), np.int64),  # without chunks, the arrays are NULL
            np.array(row["starts"] or (), np.int64),
            np.array(row["similarities"] or (), np.float64),
        )

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: NDArray[float32], *, limit: int
    ) -> Sequence[NearChunk]:
        """Return the nearest chunks of the latest revisions, by approximate search.

        If too many candidates belong to other tenants or old revisions, the index finds too few.
        Then all chunks of the latest revisions are compared.
        """
        least, most = _CANDIDATES
        candidates = min(max(limit * _SPARE, least), most)
        self._execute(text(f"SET LOCAL hnsw.ef_search = {candidates}"), {})
        self._execute(text("SET LOCAL hnsw.iterative_scan = relaxed_order"), {})
        named = {"tenant": tenant_id, "query": query, "most": limit}
        near = _near(embedding_version, len(query))
        rows = self._rows(near, **named, candidates=candidates)
        if len(rows) < limit:
            rows = self._rows(_ALL, **named, version=embedding_version)
        return [NearChunk(**row) for row in rows]


def _near(embedding_version: str, dimensions: int) -> TextClause:
    halved = f"::halfvec({dimensions})" if dimensions <= _MAX_DIMENSIONS else ""
    statement = _NEAR.format(
        version=_quoted(embedding_version),
        vector=f"(vector{halved})",
        query=f"(CAST(:query AS vector){halved})",
    )
    return text(statement).bindparams(bindparam("query", type_=Vector))


def _quoted(value: str) -> str:
    """Return an SQL literal for `text`, in which a colon would start a parameter."""
    return "'" + value.replace("'", "''").replace(":", r"\:") + "'"


async def make_hnsw(connection: AsyncConnection, embedding_version: str, dimensions: int) -> None:
    """Create the HNSW index for searches within a tenant, if there are enough vectors.

    Writers are not blocked. Does nothing while another process creates it.

    Args:
        connection: in autocommit mode.
        embedding_version: of the vectors to index.
        dimensions: of each vector.
    """
    if dimensions > _MAX_DIMENSIONS:
        return
    name = f"hnsw_{hashlib.sha256(embedding_version.encode()).hexdigest()[:16]}"
    enough = _ENOUGH.bindparams(version=embedding_version, many=_MIN_INDEXED)
    if not await connection.scalar(enough):
        return
    if not await connection.scalar(_TAKE_TURN):
        return
    try:
        valid = await connection.scalar(_IS_VALID.bindparams(name=name))
        if valid is False:  # left by an interrupted build
            await connection.execute(text(f"DROP INDEX CONCURRENTLY {name}"))
        if not valid:
            await connection.execute(text("SET maintenance_work_mem = '256MB'"))
            version = _quoted(embedding_version)
            made = _MAKE.format(name=name, dimensions=dimensions, version=version)
            await connection.execute(text(made))
            # Without statistics the planner assumes very few vectors per tenant, and would scan
            # all of them instead of using the index.
            await connection.execute(text("ANALYZE embeddings"))
    finally:
        await connection.execute(_END_TURN)
