"""Selections from unsaved books and unsaved changes.

Source: docs/rules/native.md §6, 15a.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from lorewell.model.base import Contract
from lorewell.model.book import MAX_ENTRIES, BookCreate
from lorewell.model.entry import Entry, EntryId
from lorewell.model.select import BookId, BookRef, SelectRequest
from lorewell.model.text import Identifier, Integer

RevisionNumber = Annotated[Integer, Field(ge=1)]


class InlineBook(Contract):
    """A book that is not stored.

    Attributes:
        book: the whole book.
        book_id: its id in the response; if null, one is derived from the content.
        revision: its revision number in the response.
    """

    book: BookCreate
    book_id: BookId | None = None
    revision: RevisionNumber = 1


class ChangedBook(Contract):
    """A stored revision with unsaved changes.

    Attributes:
        book_id: the stored book.
        revision: the revision to change; if null, the latest one.
        changes: entries that replace those of the same id; an entry with a new id is added at the
            end. Each needs an `id`.
        removed: ids of entries to leave out; the revision must have them.
    """

    book_id: BookId
    revision: RevisionNumber | None = None
    changes: Annotated[tuple[Entry, ...], Field(max_length=MAX_ENTRIES)] = ()
    removed: Annotated[tuple[EntryId, ...], Field(max_length=MAX_ENTRIES)] = ()


def kind_of(item: Any) -> str:  # noqa: ANN401  any input
    """Return the union tag of a book in a preview, by the members it has."""
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
    """A selection whose books may be stored, stored with changes, or sent whole.

    Attributes:
        books: no book twice.
        prompt_id: preview a turn of this prompt: values that the request does not give come from
            its settings, else from the defaults of a prompt's turns. It adds no books.
    """

    books: Annotated[tuple[PreviewBook, ...], Field(min_length=1, max_length=20)]  # type: ignore[assignment]  # wider on purpose: it is turned into a SelectRequest
    prompt_id: Annotated[Identifier, Field(min_length=1, max_length=200)] | None = None
