"""A selection from books that are not stored, or not in this form.

Source: docs/rules/native.md §6, 15a.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from lorewell.model.base import Contract
from lorewell.model.book import MAX_ENTRIES, BookCreate
from lorewell.model.entry import Entry, EntryId
from lorewell.model.select import BookId, BookRef, SelectRequest
from lorewell.model.text import Integer

RevisionNumber = Annotated[Integer, Field(ge=1)]


class InlineBook(Contract):
    """A whole book; without `book_id` one is derived from the content."""

    book: BookCreate
    book_id: BookId | None = None
    revision: RevisionNumber = 1


class ChangedBook(Contract):
    """A stored revision with entries changed, added (new ids, at the end) or removed."""

    book_id: BookId
    revision: RevisionNumber | None = None
    changes: Annotated[tuple[Entry, ...], Field(max_length=MAX_ENTRIES)] = ()
    removed: Annotated[tuple[EntryId, ...], Field(max_length=MAX_ENTRIES)] = ()


def kind_of(item: Any) -> str:  # noqa: ANN401  whatever was sent
    """Return the tag of a book in a preview, by what it names."""
    names = item if isinstance(item, dict) else getattr(item, "model_fields_set", ())
    if "book" in names:
        return "[inline]"
    return "[changed]" if "changes" in names or "removed" in names else "[stored]"


PreviewBook = Annotated[
    Annotated[BookRef, Tag("[stored]")]
    | Annotated[InlineBook, Tag("[inline]")]
    | Annotated[ChangedBook, Tag("[changed]")],
    Discriminator(kind_of),
]


class PreviewRequest(SelectRequest):
    """A SelectRequest whose books may be stored, changed or given whole."""

    books: Annotated[tuple[PreviewBook, ...], Field(min_length=1, max_length=20)]  # type: ignore[assignment]  # wider on purpose: it is turned into a SelectRequest
