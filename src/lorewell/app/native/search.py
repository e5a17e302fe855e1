"""Search over the entries of books, without the filters of a selection (§9.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from lorewell.app.loaded import LoadedRevision, get_compiled, load_books
from lorewell.app.ports import Transaction
from lorewell.app.rows import ChunkScores, NearChunk
from lorewell.app.runtime.query_vectors import QueryVector
from lorewell.app.services import Services
from lorewell.app.vectors.indexing import embedder_of, embedding_version
from lorewell.app.vectors.similarities import (
    EMBEDDING_UNAVAILABLE,
    best_of_entries,
    embed_query,
    not_ready,
    read_near,
)
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.errors import EmbeddingUnavailableError, IndexNotReadyError, SnapshotTooLargeError
from lorewell.model import BookRef, SearchRequest, SearchResponse, SearchResult
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.fusion import LIST_LENGTH, fuse
from lorewell.retrieval.order import nearest_first
from lorewell.retrieval.text import first_match, tokens

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float64
    from numpy.typing import NDArray

EXCERPT_CHARS = 600
# For requests that name no books: compiled for a lexical search, or listed as without an index.
MAX_BOOKS = 100
_CHARS_BEFORE = 100
_CHUNKS_PER_RESULT = 8  # several may belong to one entry, and some to disabled entries

At = tuple[int, int]
"""An entry: the index of its book, and its index in that book."""


async def search(services: Services, tenant_id: str, request: SearchRequest) -> SearchResponse:
    """Return the matching entries, best first, ties by full id.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
        SnapshotTooLargeError: the request names no books, and the tenant has too many.
        VectorDisabledError, IndexNotReadyError, EmbeddingUnavailableError: the mode is `vector`,
            and vectors can't be used.
    """
    if request.mode == "vector" and request.books is None:
        return await _search_tenant(services, tenant_id, request)
    refs = request.books or await _all_books(services, tenant_id)
    query = QueryVector()
    if request.mode != "lexical":
        query = await embed_query(services, tenant_id, refs, request.query)
    if request.mode == "vector":
        await _check_vectors(services, query, request.query)

    def load(tx: Transaction) -> tuple[list[LoadedRevision], QueryVector, list[ChunkScores]]:
        loaded = load_books(tx, services.cache, tenant_id, refs)
        used, near = read_near(tx, tenant_id, [each.row for each in loaded], query)
        return loaded, used, near

    async with services.computing.turn(tenant_id) as turn:
        loaded, used, near = await services.store.read(load)
        if request.mode == "vector" and used.degraded:  # a new revision was published in between
            raise _no_index(used.degraded)
        books = [await get_compiled(services, turn, each) for each in loaded]
        return await turn.run(lambda: find(books, request, used, near))


async def _check_vectors(services: Services, query: QueryVector, text: str) -> None:
    """Raise if a search by vectors alone can't be made."""
    embedder_of(services)
    if EMBEDDING_UNAVAILABLE in query.degraded and services.queries is not None:
        await services.queries.get(text)  # raises with the cause, unless the embedder works again
        raise EmbeddingUnavailableError("The embedder returned no vector for the query.")
    if query.degraded:
        raise _no_index(query.degraded)


def _no_index(missing: Sequence[str]) -> IndexNotReadyError:
    names = [name.split(":")[1:] for name in missing]
    books = [{"book_id": book_id, "revision": int(revision)} for book_id, revision in names]
    message = f"{len(books)} of the books have no ready index. Build it first."
    return IndexNotReadyError(message, books=books)


async def _all_books(services: Services, tenant_id: str) -> tuple[BookRef, ...]:
    heads = await services.store.read(
        lambda tx: tx.list_heads(
            tenant_id,
            limit=MAX_BOOKS + 1,
            after=None,
            name_contains=None,
            include_deleted=False,
        )
    )
    if len(heads) > MAX_BOOKS:
        message = f"There are more than {MAX_BOOKS} books. Name some, or use the mode `vector`."
        raise SnapshotTooLargeError(message, max_books=MAX_BOOKS)
    return tuple(BookRef(book_id=head.book_id, revision=head.latest_revision) for head in heads)


def find(
    books: Sequence[CompiledBook],
    request: SearchRequest,
    query: QueryVector = QueryVector(),  # noqa: B008  never changes
    near: Sequence[ChunkScores] = (),
) -> SearchResponse:
    """Return the result of a search.

    Args:
        books: the compiled books to search.
        request: the search; in the mode `hybrid` with `near` empty it is lexical only, and `query`
            has the causes.
        query: the query vector.
        near: the chunk similarities of each book.
    """
    hits = _Hits(books, request, near)
    best: Mapping[At, float]
    match request.mode:
        case "lexical":
            best = {at: hits.ranking.score(*at) for at in islice(hits.lexical(), request.limit)}
        case "vector":
            best = {at: hits.similarity(at) or 0.0 for at in islice(hits.nearest(), request.limit)}
        case "hybrid":
            best = hits.fused()
    words = frozenset(tokens(request.query))
    return SearchResponse(
        results=tuple(hits.result(at, score, words) for at, score in best.items()),
        mode=request.mode,
        degraded=query.degraded,
        embedding_version=query.embedding_version if near else None,
    )


@dataclass(frozen=True)
class _Hits:
    """The lexical and the vector matches in a list of books."""

    books: Sequence[CompiledBook]
    request: SearchRequest
    near: Sequence[ChunkScores]

    @cached_property
    def ranking(self) -> Ranking:
        """The lexical ranking of the entries."""
        return Ranking([book.lexical() for book in self.books], self.request.query)

    @cached_property
    def similarities(self) -> list[NDArray[float64]]:
        """The entry similarities of each book."""
        return [
            best_of_entries(scores, book.entry_count)
            for book, scores in zip(self.books, self.near, strict=False)
        ]

    def entry(self, at: At) -> CompiledEntry:
        number, place = at
        return self.books[number].entries[place]

    def lexical(self) -> Iterator[At]:
        """Yield the lexical matches, best first."""
        return self._enabled(self.ranking.best_first(lambda *at: self.entry(at).full_id))

    def nearest(self) -> Iterator[At]:
        """Yield the vector matches, best first."""
        return self._enabled(nearest_first(self.similarities, lambda *at: self.entry(at).full_id))

    def _enabled(self, found: Iterable[At]) -> Iterator[At]:
        include_all = self.request.include_disabled
        return (at for at in found if include_all or self.entry(at).spec.enabled)

    def fused(self) -> Mapping[At, float]:
        """Return the matches of both rankings with their fused scores."""
        lists = [list(islice(found, LIST_LENGTH)) for found in (self.lexical(), self.nearest())]
        named = {self.entry(at).full_id: at for each in lists for at in each}
        rankings = [[self.entry(at).full_id for at in each] for each in lists]
        scores = fuse(rankings, keep=self.request.limit)
        return {named[full_id]: score for full_id, score in scores.items()}

    def similarity(self, at: At) -> float | None:
        number, place = at
        if not self.similarities:
            return None
        found = float(self.similarities[number][place])
        return found if found == found else None  # noqa: PLR0124  NaN

    def result(self, at: At, score: float, words: frozenset[str]) -> SearchResult:
        number, place = at
        entry, similarity = self.entry(at), self.similarity(at)
        by_words = self.ranking.score(*at) if self.request.mode != "vector" else 0.0
        if by_words or similarity is None:
            piece = excerpt(entry.spec.content, words)
        else:
            piece = _best_piece(entry.spec.content, self.near[number], place)
        return _result(self.books[number], entry, piece, score, (by_words or None, similarity))


def _best_piece(content: str, near: ChunkScores, place: int) -> str:
    """Return the beginning of the chunk that is most similar to the query."""
    found = [number for number, each in enumerate(near.places.tolist()) if each == place]
    best = max(found, key=lambda number: (near.similarities[number], -near.starts[number]))
    return _piece(content, int(near.starts[best]))


def _piece(content: str, start: int) -> str:
    return content[start : start + EXCERPT_CHARS]


def excerpt(content: str, words: frozenset[str]) -> str:
    """Return 600 characters at most, from 100 before the first word found, else from the start."""
    found = first_match(content, words) or 0
    return _piece(content, max(0, found - _CHARS_BEFORE))


def _result(
    book: CompiledBook,
    entry: CompiledEntry,
    piece: str,
    score: float,
    scores: tuple[float | None, float | None],
) -> SearchResult:
    lexical, vector = scores
    return SearchResult(
        id=entry.full_id,
        book_id=book.book_id,
        revision=book.revision,
        entry_id=entry.spec.id,
        title=entry.spec.title,
        excerpt=piece,
        enabled=entry.spec.enabled,
        score=score,
        lexical_score=lexical,
        vector_score=vector,
    )


async def _search_tenant(
    services: Services, tenant_id: str, request: SearchRequest
) -> SearchResponse:
    """Search by vectors in the latest revisions of all books that have an index."""
    embedder = embedder_of(services)
    version = embedding_version(embedder)
    assert services.queries is not None  # noqa: S101  they come with the embedder
    vector = await services.queries.get(request.query)
    limit = request.limit * _CHUNKS_PER_RESULT

    def load(
        tx: Transaction,
    ) -> tuple[dict[tuple[str, int], LoadedRevision], list[NearChunk], list[str]]:
        near = tx.near_chunks(tenant_id, version, vector, limit=limit)
        best: dict[tuple[str, int, int], NearChunk] = {}
        for chunk in near:
            best.setdefault(chunk[:3], chunk)
        revisions = dict.fromkeys((chunk.book_id, chunk.revision) for chunk in best.values())
        refs = [BookRef(book_id=book_id, revision=number) for book_id, number in revisions]
        loaded = load_books(tx, services.cache, tenant_id, refs)
        stale = tx.list_indexes(tenant_id, limit=MAX_BOOKS, after=None, not_ready_for=version)
        heads = tx.find_heads(tenant_id, [book_id for book_id, _, _ in stale])
        missing = [
            not_ready(book_id, number)
            for book_id, number, _ in stale
            if heads[book_id].latest_revision == number
        ]
        return dict(zip(revisions, loaded, strict=True)), list(best.values()), missing

    def answer(
        books: Mapping[tuple[str, int], CompiledBook],
        near: Sequence[NearChunk],
        missing: Sequence[str],
    ) -> SearchResponse:
        results = []
        for chunk in near:
            book = books[chunk.book_id, chunk.revision]
            entry = book.entries[chunk.place]
            if entry.spec.enabled or request.include_disabled:
                piece = _piece(entry.spec.content, chunk.start)
                scores = (None, chunk.similarity)
                results.append(_result(book, entry, piece, chunk.similarity, scores))
        results.sort(key=lambda each: (-each.score, each.id))
        return SearchResponse(
            results=tuple(results[: request.limit]),
            mode="vector",
            degraded=tuple(sorted(missing)),
            embedding_version=version,
        )

    async with services.computing.turn(tenant_id) as turn:
        loaded, near, missing = await services.store.read(load)
        books = {name: await get_compiled(services, turn, each) for name, each in loaded.items()}
        response = await turn.run(lambda: answer(books, near, missing))
    services.jobs.start_rarely(
        version, lambda: services.store.prepare_tenant_search(version, embedder.dimensions)
    )
    return response
