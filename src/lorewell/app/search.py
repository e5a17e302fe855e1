"""Searching the entries of books; no filter of a selection applies (§9.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorewell.app.selection import compiled, load_books
from lorewell.app.services import Services
from lorewell.engine.compiled import CompiledBook, CompiledEntry
from lorewell.errors import VectorDisabledError
from lorewell.model import SearchRequest, SearchResponse, SearchResult
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.fusion import fuse
from lorewell.retrieval.text import first_match, tokens

EXCERPT_CHARS = 600
_CHARS_BEFORE = 100


async def search(services: Services, tenant_id: str, request: SearchRequest) -> SearchResponse:
    """Return the entries that match, best first, ties by full id.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book is not there.
        VectorDisabledError: vectors alone are asked for, and there are none.
    """
    if request.mode == "vector":
        raise VectorDisabledError("This service has no vectors; search in the mode lexical.")
    return await services.store.read_then(
        lambda tx: load_books(tx, services.cache, tenant_id, request.books),
        lambda loaded: find(
            [compiled(services.cache, services.counter, each) for each in loaded], request
        ),
    )


def find(books: Sequence[CompiledBook], request: SearchRequest) -> SearchResponse:
    """Return what a search by words gives; in the mode hybrid as if vectors had failed."""
    entries: dict[str, tuple[CompiledBook, CompiledEntry]] = {}
    lexical: dict[str, float] = {}
    ranking = Ranking([book.lexical() for book in books], request.query)
    ranked = ranking.best_first(lambda number, place: books[number].entries[place].full_id)
    for number, place in ranked:
        entry = books[number].entries[place]
        if entry.spec.enabled or request.include_disabled:
            entries[entry.full_id] = (books[number], entry)
            lexical[entry.full_id] = ranking.score(number, place)
        if len(entries) == request.limit:
            break
    scores: Mapping[str, float] = (
        fuse([list(lexical)], keep=request.limit) if request.mode == "hybrid" else lexical
    )
    words = frozenset(tokens(request.query))
    return SearchResponse(
        results=tuple(
            SearchResult(
                id=full_id,
                book_id=book.book_id,
                revision=book.revision,
                entry_id=entry.spec.id,
                title=entry.spec.title,
                excerpt=excerpt(entry.spec.content, words),
                enabled=entry.spec.enabled,
                score=scores[full_id],
                lexical_score=lexical[full_id],
                vector_score=None,
            )
            for full_id in scores
            for book, entry in [entries[full_id]]
        ),
        mode=request.mode,
        degraded=("vector_disabled",) if request.mode == "hybrid" else (),
        embedding_version=None,
    )


def excerpt(content: str, words: frozenset[str]) -> str:
    """Return at most 600 characters, from 100 before the first of the words; else the beginning."""
    found = first_match(content, words) or 0
    start = max(0, found - _CHARS_BEFORE)
    return content[start : start + EXCERPT_CHARS]
