"""Exact vector search on SQLite: the vectors of a revision form one cached matrix."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, bindparam, select

from lorewell.app.rows import ChunkScores, IndexRow, NearChunk
from lorewell.store.statements import Statements
from lorewell.store.tables import books, chunks, embeddings, vector_indexes as indexes

if TYPE_CHECKING:
    from numpy import float32, int64
    from numpy.typing import NDArray

_CHUNKS = (
    select(chunks.c.place, chunks.c.start, embeddings.c.vector)
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
    .order_by(chunks.c.number)
)
_LATEST = (
    select(indexes)
    .join(
        books,
        and_(
            books.c.tenant_id == indexes.c.tenant_id,
            books.c.book_id == indexes.c.book_id,
            books.c.latest_revision == indexes.c.revision,
        ),
    )
    .where(
        indexes.c.tenant_id == bindparam("tenant"),
        indexes.c.ready_version == bindparam("version"),
        books.c.deleted_at.is_(None),
    )
    .order_by(indexes.c.book_id)
)


class Matrix(NamedTuple):
    """The vectors of a revision's chunks, one per row, with their entries' places and starts."""

    places: NDArray[int64]
    starts: NDArray[int64]
    vectors: NDArray[float32]


class Matrices:
    """A cache of the matrices used last, of about `limit_bytes` at most. Thread-safe.

    The vectors of a build id never change, so a matrix never becomes stale.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Matrix] = OrderedDict()
        self._bytes = 0

    def find(self, build_id: str) -> Matrix | None:
        """Return the matrix of a build, if cached."""
        with self._lock:
            if build_id in self._held:
                self._held.move_to_end(build_id)
            return self._held.get(build_id)

    def hold(self, build_id: str, matrix: Matrix) -> None:
        """Cache a matrix, unless it alone exceeds the limit."""
        size = matrix.vectors.nbytes
        with self._lock:
            if build_id in self._held or size > self._limit:
                return
            self._held[build_id] = matrix
            self._bytes += size
            while self._bytes > self._limit:
                _, gone = self._held.popitem(last=False)
                self._bytes -= gone.vectors.nbytes


class SqliteVectors(Statements):
    """Vector search in a transaction on SQLite; the store sets `matrices`."""

    matrices: Matrices

    def similarities(self, index: IndexRow, query: NDArray[float32]) -> ChunkScores:
        """Return the similarity of each chunk of a ready index to a query vector of length 1."""
        import numpy as np  # noqa: PLC0415  services without vectors never load numpy

        name = index.ready_build_id or f"{index.build_id} partial"
        matrix = self.matrices.find(name)
        if matrix is None:
            matrix = self._load(index, len(query))
            self.matrices.hold(name, matrix)
        # Not `@`: it occupies all cores, which is slower unless they are idle.
        found = np.vecdot(matrix.vectors, query)
        return ChunkScores(matrix.places, matrix.starts, found.astype("f8"))

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: NDArray[float32], *, limit: int
    ) -> Sequence[NearChunk]:
        """Return the nearest chunks of the latest revisions, by exact search."""
        import numpy as np  # noqa: PLC0415  see above

        near: list[NearChunk] = []
        for row in self._rows(_LATEST, tenant=tenant_id, version=embedding_version):
            index = IndexRow(**row)
            places, starts, found = self.similarities(index, query)
            best = (
                np.argpartition(-found, limit)[:limit] if len(found) > limit else range(len(found))
            )
            near += [
                NearChunk(
                    index.book_id, index.revision, int(places[n]), int(starts[n]), float(found[n])
                )
                for n in best
            ]
        near.sort(key=lambda chunk: (-chunk.similarity, *chunk[:4]))
        return near[:limit]

    def _load(self, index: IndexRow, dimensions: int) -> Matrix:
        import numpy as np  # noqa: PLC0415  see above

        named = {"tenant": index.tenant_id, "book": index.book_id, "number": index.revision}
        rows = self._rows(_CHUNKS, **named)
        vectors = np.frombuffer(b"".join(row["vector"] for row in rows), "<f4")
        return Matrix(
            np.array([row["place"] for row in rows], np.int64),
            np.array([row["start"] for row in rows], np.int64),
            vectors.reshape(len(rows), dimensions),
        )
