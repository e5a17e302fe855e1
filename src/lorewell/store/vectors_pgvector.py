"""Vector search by pgvector: exact in a revision, by an HNSW index in a whole tenant."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Float, TextClause, and_, bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from lorewell.app.ports import ChunkScores, IndexRow, NearChunk
from lorewell.store.tables import Vector, chunks, embeddings
from lorewell.store.vectors import Vectors

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_WORTH_AN_INDEX = 20_000  # vectors; fewer are looked at one by one in good time
_MOST_DIMENSIONS = 4_000  # that an index of halved numbers takes
_CANDIDATES = (100, 1_000)  # chunks that are looked at exactly, at least and at most
_SPARE = 4  # of them for each that is asked for: numbers were halved, and old revisions go
_LOCK = int.from_bytes(b"lorehnsw")
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
_DISTANCE = embeddings.c.vector.op("<=>", return_type=Float())(bindparam("query", type_=Vector))
_OF_REVISION = (
    select(
        func.array_agg(chunks.c.place).label("places"),
        func.array_agg(chunks.c.start).label("starts"),
        func.array_agg(1 - _DISTANCE).label("similarities"),
    )
    .join(
        embeddings,
        and_(
            embeddings.c.tenant_id == chunks.c.tenant_id,
            embeddings.c.embedding_version == chunks.c.embedding_version,
            embeddings.c.text_hash == chunks.c.text_hash,
        ),
    )
    .where(
        chunks.c.tenant_id == bindparam("tenant"),
        chunks.c.book_id == bindparam("book"),
        chunks.c.revision == bindparam("number"),
    )
)
# The version stands in the statement itself, or the planner could not take a partial index.
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT text_hash, 1 - (vector <=> :query) AS similarity
    FROM embeddings
    WHERE tenant_id = :tenant AND embedding_version = {version}
    ORDER BY {vector} <=> {query}
    LIMIT :candidates
)
SELECT chunks.book_id, chunks.revision, chunks.place, chunks.start, near.similarity
FROM near
JOIN chunks ON chunks.tenant_id = :tenant AND chunks.embedding_version = {version}
    AND chunks.text_hash = near.text_hash
JOIN books ON books.tenant_id = :tenant AND books.book_id = chunks.book_id
    AND books.latest_revision = chunks.revision AND books.deleted_at IS NULL
JOIN vector_indexes ON vector_indexes.tenant_id = :tenant
    AND vector_indexes.book_id = chunks.book_id AND vector_indexes.revision = chunks.revision
    AND vector_indexes.status = 'ready' AND vector_indexes.embedding_version = {version}
ORDER BY similarity DESC, book_id, revision, place, start
LIMIT :most
"""


class PgVectors(Vectors):
    """How a transaction on PostgreSQL keeps and searches vectors."""

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
        """Return the nearest chunks of the latest revisions, as far as the index finds them."""
        least, most = _CANDIDATES
        candidates = min(max(limit * _SPARE, least), most)
        self._execute(text(f"SET LOCAL hnsw.ef_search = {candidates}"), {})
        self._execute(text("SET LOCAL hnsw.iterative_scan = relaxed_order"), {})
        rows = self._rows(
            _near(embedding_version, len(query)),
            tenant=tenant_id,
            query=query,
            candidates=candidates,
            most=limit,
        )
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
    finally:
        await connection.execute(_END_TURN)
