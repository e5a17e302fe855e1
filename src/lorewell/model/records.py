"""Stored books and revisions, and the responses of their routes (docs/rules/native.md §3.5, §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.entry import Entry
from lorewell.model.imports import ImportReport
from lorewell.model.text import Integer

RevisionNumber = Annotated[Integer, Field(ge=1)]
Timestamp = Annotated[str, Field(description="RFC 3339, in UTC, with microseconds and `Z`.")]


class BookHead(Contract):
    """A book without the content of its revisions.

    Attributes:
        book_id: a UUID.
        tenant_id: the tenant that owns the book.
        name: the name in the latest revision.
        latest_revision: number of the latest revision, from 1.
        created_at: when the book was created.
        updated_at: when the book last changed.
        deleted_at: when the book was deleted; null if it was not.
    """

    book_id: str
    tenant_id: str
    name: str
    latest_revision: int
    created_at: Timestamp
    updated_at: Timestamp
    deleted_at: Timestamp | None


class NativeReport(Contract):
    """The import report of a book that was sent as native JSON.

    Attributes:
        format: always `native`.
        entry_count: number of entries.
    """

    format: Literal["native"] = "native"
    entry_count: int


class RevisionInfo(Contract):
    """A revision without its entries.

    Attributes:
        book_id: a UUID.
        revision: its number, from 1.
        name: the book's name in this revision.
        entry_count: number of entries.
        content_hash: SHA-256 of the content's canonical JSON, in lowercase hex.
        created_at: when the revision was stored.
    """

    book_id: str
    revision: int
    name: str
    entry_count: int
    content_hash: str
    created_at: Timestamp


class Revision(RevisionInfo):
    """A whole revision. Revisions never change.

    Attributes:
        description: the book's description in this revision.
        metadata: free-form data of the book.
        entries: in stored order, with every default written out.
        import_report: how the content was imported.
    """

    description: str
    metadata: dict[str, Any]
    entries: tuple[Entry, ...]
    import_report: ImportReport | NativeReport


class StoredBook(Contract):
    """A book with one of its revisions.

    Attributes:
        book: the book.
        revision: the requested revision, or the latest one.
    """

    book: BookHead
    revision: Revision


class BookPage(Contract):
    """A page of books.

    Attributes:
        books: last changed first, then by id.
        next_cursor: `cursor` of the next page; null on the last page.
    """

    books: tuple[BookHead, ...]
    next_cursor: str | None


class RevisionPage(Contract):
    """A page of a book's revisions.

    Attributes:
        revisions: newest first.
        next_cursor: `cursor` of the next page; null on the last page.
    """

    revisions: tuple[RevisionInfo, ...]
    next_cursor: str | None


class PublishRequest(BookCreate):
    """The whole content of the next revision.

    Attributes:
        expected_revision: the latest revision that the caller knows; if the book has a later one,
            the request fails with `revision_conflict`.
    """

    expected_revision: RevisionNumber

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(
            self,
            *,
            name: str,
            expected_revision: int,
            description: str = ...,
            entries: Sequence[Entry | Mapping[str, Any]] = ...,
            metadata: Mapping[str, Any] = ...,
        ) -> None: ...


class RestoreRequest(Contract):
    """Options for restoring an old revision as the next one.

    Attributes:
        expected_revision: the latest revision that the caller knows; if the book has a later one,
            the request fails with `revision_conflict`.
    """

    expected_revision: RevisionNumber


class Published(Contract):
    """A published revision.

    Attributes:
        book_id: a UUID.
        revision: its number.
        entry_count: number of entries.
        content_hash: SHA-256 of the content's canonical JSON, in lowercase hex.
        replayed: whether this is the stored result of an earlier request with the same
            `Idempotency-Key`.
    """

    book_id: str
    revision: int
    entry_count: int
    content_hash: str
    replayed: bool = False


class ImportBatch(Contract):
    """Several native books, which are stored all or none.

    Attributes:
        books: 1 to 10 books.
    """

    books: Annotated[tuple[BookCreate, ...], Field(min_length=1, max_length=10)]


class CreatedBook(Contract):
    """A created book.

    Attributes:
        book_id: a UUID.
        revision: always 1.
        deduplicated: whether the tenant had imported the same file before, so that this is the
            earlier book.
        import_report: how the content was imported.
    """

    book_id: str
    revision: int
    deduplicated: bool
    import_report: ImportReport | NativeReport


class CreateResult(Contract):
    """The books that a request created.

    Attributes:
        books: in the order of the request.
        replayed: whether this is the stored result of an earlier request with the same
            `Idempotency-Key`.
    """

    books: tuple[CreatedBook, ...]
    replayed: bool


class ImportPreview(Contract):
    """The result of an import that stores nothing.

    Attributes:
        book: the book; `POST /v1/books` accepts it unchanged.
        import_report: how the file was read.
    """

    book: BookCreate
    import_report: ImportReport


class FieldChange(Contract):
    """A field that differs between two revisions.

    Attributes:
        name: the field.
        before: its value in the older revision; null if it has none.
        after: its value in the newer revision; null if it has none.
    """

    name: str
    before: Any = None
    after: Any = None


FieldChanges = Annotated[
    tuple[FieldChange, ...] | None, Field(exclude_if=lambda values: values is None)
]


class ChangedEntry(Contract):
    """An entry that differs between two revisions.

    Attributes:
        id: the entry's id.
        fields: names of the fields that differ.
        values: these fields with both values; only if the request asks for them.
    """

    id: str
    fields: tuple[str, ...]
    values: FieldChanges = None


class BookDiff(Contract):
    """The differences between two revisions; entries in stored order.

    Attributes:
        added: ids of entries that only the newer revision has.
        removed: ids of entries that only the older revision has.
        changed: entries that both have, with different fields.
        book_fields: names of the book's own fields that differ.
        book_values: these fields with both values, for `entries` the order of the ids; only if the
            request asks for them.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ChangedEntry, ...]
    book_fields: tuple[str, ...]
    book_values: FieldChanges = None
