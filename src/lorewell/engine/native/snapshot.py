"""The books of one request, each in one revision (docs/rules/native.md §4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import (
    BookNotFoundError,
    Fault,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    ValidationFailedError,
)
from lorewell.model import BookRef, SelectRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """Limits for all books of one request together (§4)."""

    entries: int = 10_000
    content_chars: int = 10_000_000


USUAL_LIMITS: Final = SnapshotLimits()


def take_snapshot(
    books: Sequence[CompiledBook], request: SelectRequest, limits: SnapshotLimits
) -> tuple[CompiledBook, ...]:
    """Return the requested revisions, in the order of the request.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a requested book is not among `books`.
        SnapshotTooLargeError: the requested books exceed `limits`.
        ValidationFailedError: they were compiled for different tokenizers.
    """
    snapshot = tuple(_find(books, ref) for ref in request.books)
    entries = sum(book.entry_count for book in snapshot)
    characters = sum(book.content_chars for book in snapshot)
    if entries > limits.entries or characters > limits.content_chars:
        message = (
            f"The requested books hold {entries} entries and {characters} characters;"
            f" at most {limits.entries} and {limits.content_chars} are allowed."
        )
        raise SnapshotTooLargeError(message, entries=entries, content_chars=characters)
    names = sorted({book.counter.name for book in snapshot})
    if len(names) > 1:
        reason = f"the books count tokens in different ways: {', '.join(names)}"
        raise ValidationFailedError.at(Fault("/books", reason))
    return snapshot


def _find(books: Sequence[CompiledBook], ref: BookRef) -> CompiledBook:
    revisions = {book.revision: book for book in books if book.book_id == ref.book_id}
    if not revisions:
        message = f"There is no book {ref.book_id}."
        raise BookNotFoundError(message, book_id=ref.book_id)
    revision = max(revisions) if ref.revision is None else ref.revision
    if revision not in revisions:
        message = f"The book {ref.book_id} has no revision {revision}."
        raise RevisionNotFoundError(message, book_id=ref.book_id, revision=revision)
    return revisions[revision]
