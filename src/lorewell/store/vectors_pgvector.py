"""Vector search by pgvector: exact in a revision, by an HNSW index in a whole tenant."""

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

_WORTH_AN_INDEX = 20_000  # vectors; fewer are looked at one by one in good time
_MOST_DIMENSIONS = 4_000  # that an index of halved numbers takes
_CANDIDATES = (200, 1_000)  # chunks that are looked at exactly, at least and at most
_SPARE = 2  # of them for each that is asked for: numbers were halved, and old revisions go
_LOCK = int.from_bytes(b"lorehnsw")
# Two numbers, so that it is none of the locks with one, whatever the tenant.
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
# As arrays: vectors of pgvector go over as text, which takes the event loop ten times as long.
_PUT = text("""
INSERT INTO embeddings (tenant_id, embedding_version, text_hash, vector, made_at)
VALUES (:tenant, :version, :text_hash, CAST(CAST(:numbers AS real[]) AS vector), :made_at)
ON CONFLICT (tenant_id, embedding_version, text_hash)
DO UPDATE SET vector = excluded.vector, made_at = excluded.made_at
""")
# One by one, as below: else the planner may read all vectors of all tenants to find these.
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
# How a chunk is found, and whether its book still shows it, is told step by step: without OFFSET 0
# the planner may go through all chunks for each candidate, as long as it knows a table badly.
# The version stands in the statement itself, or the planner could not take a partial index.
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
    """How a transaction on PostgreSQL keeps and searches vectors."""

    def hold_texts(self, tenant_id: str) -> None:
        """Wait for other transactions that did this; till this one ends others wait for it."""
        self._execute(_HOLD, {"tenant": tenant_id})

    def put_embeddings(
        self,
        tenant_id: str,
        embedding_version: str,
        vectors: Mapping[str, NDArray[float32]],
        made_at: datetime,
    ) -> None:
        """Keep vectors by the hash of their text, in place of those that were there."""
        named = {"tenant": tenant_id, "version": embedding_version, "made_at": made_at}
        rows = [
            {**named, "text_hash": text_hash, "numbers": vectors[text_hash].tolist()}
            for text_hash in sorted(vectors)  # as the base class, so that nobody waits in a circle
        ]
        if rows:
            self._execute(_PUT, rows)

    def similarities(self, index: IndexRow, query: NDArray[float32]) -> ChunkScores:
        """Return how near all chunks of a ready index are to a query of length 1."""
        import numpy as np  # noqa: PLC0415  who has no vectors loads no numpy for them

        named = {"tenant": index.tenant_id, "book": index.book_id, "number": index.revision}
        (row,) = self._rows(_OF_REVISION, **named, query=query)
        return ChunkScores(
            np.array(row["places"] or (), np.int64),  # without any chunk there is no array
            np.array(row["starts"] or (), np.int64),
            np.array(row["similarities"] or (), np.float64),
        )

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: NDArray[float32], *, limit: int
    ) -> Sequence[NearChunk]:
        """Return the nearest chunks of the latest revisions, as far as the index finds them.

        Where most candidates are of other tenants or of old revisions it finds too few; then all
        chunks of the latest revisions are looked at.
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
    halved = f"::halfvec({dimensions})" if dimensions <= _MOST_DIMENSIONS else ""
    statement = _NEAR.format(
        version=_quoted(embedding_version),
        vector=f"(vector{halved})",
        query=f"(CAST(:query AS vector){halved})",
    )
    return text(statement).bindparams(bindparam("query", type_=Vector))


def _quoted(value: str) -> str:
    """Return a literal for `text`, to which a colon begins a parameter."""
    return "'" + value.replace("'", "''").replace(":", r"\:") + "'"


async def make_hnsw(connection: AsyncConnection, embedding_version: str, dimensions: int) -> None:
    """Make the index for searches in a whole tenant, if there are enough vectors for one.

    Writers go on meanwhile. Where somebody else makes it, nothing is done.

    Args:
        connection: one that commits by itself.
        embedding_version: whose vectors.
        dimensions: of each of them.
    """
    if dimensions > _MOST_DIMENSIONS:
        return
    name = f"hnsw_{hashlib.sha256(embedding_version.encode()).hexdigest()[:16]}"
    enough = _ENOUGH.bindparams(version=embedding_version, many=_WORTH_AN_INDEX)
    if not await connection.scalar(enough):
        return
    if not await connection.scalar(_TAKE_TURN):
        return
    try:
        valid = await connection.scalar(_IS_VALID.bindparams(name=name))
        if valid is False:  # a build that was cut off leaves one that is of no use
            await connection.execute(text(f"DROP INDEX CONCURRENTLY {name}"))
        if not valid:
            await connection.execute(text("SET maintenance_work_mem = '256MB'"))
            version = _quoted(embedding_version)
            made = _MAKE.format(name=name, dimensions=dimensions, version=version)
            await connection.execute(text(made))
            # The planner guesses that hardly any vector is this tenant's, until somebody counts:
            # it would go through all of them, and leave the index alone.
            await connection.execute(text("ANALYZE embeddings"))
    finally:
        await connection.execute(_END_TURN)
