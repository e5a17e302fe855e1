"""Searching the entries of books; no filter of a selection applies (§9.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from lorewell.app.loaded import LoadedRevision, compiled, load_books
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

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float64
    from numpy.typing import NDArray

EXCERPT_CHARS = 600
# Without named books: what is compiled for a search by words, and told of books without an index.
MOST_BOOKS = 100
_CHARS_BEFORE = 100
_CHUNKS_PER_RESULT = 8  # asked for, since several may be of one entry, and some of disabled ones

At = tuple[int, int]
"""An entry, by the number of its book and its place there."""


async def search(services: Services, tenant_id: str, request: SearchRequest) -> SearchResponse:
    """Return the entries that match, best first, ties by full id.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book is not there.
        SnapshotTooLargeError: no books are named, and all of them are too many to be compiled.
        VectorDisabledError, IndexNotReadyError, EmbeddingUnavailableError: vectors alone are asked
            for, and can't be used.
    """
    if request.mode == "vector" and request.books is None:
        return await _search_tenant(services, tenant_id, request)
    refs = request.books or await _all_books(services, tenant_id)
    query = QueryVector()
    if request.mode != "lexical":
        query = await embed_query(services, tenant_id, refs, request.query)
    if request.mode == "vector":
        await _refuse(services, query, request.query)

    def load(tx: Transaction) -> tuple[list[LoadedRevision], QueryVector, list[ChunkScores]]:
        loaded = load_books(tx, services.cache, tenant_id, refs)
        used, near = read_near(tx, tenant_id, [each.row for each in loaded], query)
        return loaded, used, near

    async with services.computing.turn(tenant_id) as turn:
        loaded, used, near = await services.store.read(load)
        if request.mode == "vector" and used.degraded:  # meanwhile a book was published again
            raise _no_index(used.degraded)
        books = [await compiled(services, turn, each) for each in loaded]
        return await turn.run(lambda: find(books, request, used, near))


async def _refuse(services: Services, query: QueryVector, text: str) -> None:
    """Raise what keeps a search by vectors alone from being made, if anything does."""
    embedder_of(services)
    if EMBEDDING_UNAVAILABLE in query.degraded and services.queries is not None:
        await services.queries.get(text)  # which says why, unless it has them after all
        raise EmbeddingUnavailableError("The embedder had no vector for the query.")
    if query.degraded:
        raise _no_index(query.degraded)


def _no_index(missing: Sequence[str]) -> IndexNotReadyError:
    names = [name.split(":")[1:] for name in missing]
    books = [{"book_id": book_id, "revision": int(revision)} for book_id, revision in names]
    message = f"{len(books)} of the books have no index that is ready; build it first."
    return IndexNotReadyError(message, books=books)


async def _all_books(services: Services, tenant_id: str) -> tuple[BookRef, ...]:
    heads = await services.store.read(
        lambda tx: tx.list_heads(
            tenant_id,
            limit=MOST_BOOKS + 1,
            after=None,
            name_contains=None,
            include_deleted=False,
        )
    )
    if len(heads) > MOST_BOOKS:
        message = f"There are over {MOST_BOOKS} books; name some, or search in the mode vector."
        raise SnapshotTooLargeError(message, max_books=MOST_BOOKS)
    return tuple(BookRef(book_id=head.book_id, revision=head.latest_revision) for head in heads)


def find(
    books: Sequence[CompiledBook],
    request: SearchRequest,
    query: QueryVector = QueryVector(),  # noqa: B008  never changes
    near: Sequence[ChunkScores] = (),
) -> SearchResponse:
    """Return what a search gives.

    Args:
        books: what is searched.
        request: how; in the mode hybrid with `near` empty by words alone, as `query` then says.
        query: what was embedded.
        near: of each book, how near its chunks are to the query.
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
    """What is found in books, by words and by vectors."""

    books: Sequence[CompiledBook]
    request: SearchRequest
    near: Sequence[ChunkScores]

    @cached_property
    def ranking(self) -> Ranking:
        """The entries by words."""
        return Ranking([book.lexical() for book in self.books], self.request.query)

    @cached_property
    def similarities(self) -> list[NDArray[float64]]:
        """Of each book, how near its entries are."""
        return [
            best_of_entries(scores, book.entry_count)
            for book, scores in zip(self.books, self.near, strict=False)
        ]

    def entry(self, at: At) -> CompiledEntry:
        number, place = at
        return self.books[number].entries[place]

    def lexical(self) -> Iterator[At]:
        """Yield what words find, best first."""
        return self._searched(self.ranking.best_first(lambda *at: self.entry(at).full_id))

    def nearest(self) -> Iterator[At]:
        """Yield what vectors find, best first."""
        return self._searched(nearest_first(self.similarities, lambda *at: self.entry(at).full_id))

    def _searched(self, found: Iterable[At]) -> Iterator[At]:
        everything = self.request.include_disabled
        return (at for at in found if everything or self.entry(at).spec.enabled)

    def fused(self) -> Mapping[At, float]:
        """Return what either finds, by the score of both lists together."""
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
    """Return the beginning of the chunk that is nearest to the query."""
    found = [number for number, each in enumerate(near.places.tolist()) if each == place]
    best = max(found, key=lambda number: (near.similarities[number], -near.starts[number]))
    return _piece(content, int(near.starts[best]))


def _piece(content: str, start: int) -> str:
    return content[start : start + EXCERPT_CHARS]


def excerpt(content: str, words: frozenset[str]) -> str:
    """Return at most 600 characters, from 100 before the first of the words; else the beginning."""
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
    """Return what vectors find in the latest revisions of all books that have an index."""
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
        stale = tx.list_indexes(tenant_id, limit=MOST_BOOKS, after=None, not_ready_for=version)
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
        books = {name: await compiled(services, turn, each) for name, each in loaded.items()}
        response = await turn.run(lambda: answer(books, near, missing))
    services.jobs.start_rarely(
        version, lambda: services.store.prepare_tenant_search(version, embedder.dimensions)
    )
    return response
