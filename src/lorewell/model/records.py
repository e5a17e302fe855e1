"""What is stored of a book and what the routes say of it (docs/rules/native.md §3.5, §6)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.entry import Entry
from lorewell.model.imports import ImportReport
from lorewell.model.text import Integer

RevisionNumber = Annotated[Integer, Field(ge=1)]
Timestamp = Annotated[str, Field(description="RFC 3339, UTC, with microseconds and Z")]


class BookHead(Contract):
    """A book by its newest revision."""

    book_id: str
    tenant_id: str
    name: str
    latest_revision: int
    created_at: Timestamp
    updated_at: Timestamp
    deleted_at: Timestamp | None


class NativeReport(Contract):
    """The report of a book that came as native JSON."""

    format: Literal["native"] = "native"
    entry_count: int


class RevisionInfo(Contract):
    """A revision without its entries."""

    book_id: str
    revision: int
    name: str
    entry_count: int
    content_hash: str
    created_at: Timestamp


class Revision(RevisionInfo):
    """A whole revision. It never changes."""

    description: str
    metadata: dict[str, Any]
    entries: tuple[Entry, ...]
    import_report: ImportReport | NativeReport


class StoredBook(Contract):
    """A book's head with one revision of it."""

    book: BookHead
    revision: Revision


class BookPage(Contract):
    """Heads, last changed first; `next_cursor` asks for the next page, null on the last."""

    books: tuple[BookHead, ...]
    next_cursor: str | None


class RevisionPage(Contract):
    """Revisions of a book, newest first."""

    revisions: tuple[RevisionInfo, ...]
    next_cursor: str | None


class PublishRequest(BookCreate):
    """The whole next revision, and the number of the head that it is to follow."""

    expected_revision: RevisionNumber


class RestoreRequest(Contract):
    """The number of the head that a restored revision is to follow."""

    expected_revision: RevisionNumber


class Published(Contract):
    """A revision that was written; `replayed` where an earlier result is given again."""

    book_id: str
    revision: int
    entry_count: int
    content_hash: str
    replayed: bool = False


class ImportBatch(Contract):
    """Several native books: all are stored, or none."""

    books: Annotated[tuple[BookCreate, ...], Field(min_length=1, max_length=10)]


class CreatedBook(Contract):
    """A stored book; `deduplicated` where the same file had made it before."""

    book_id: str
    revision: int
    deduplicated: bool
    import_report: ImportReport | NativeReport


class CreateResult(Contract):
    """What a request created, in its order; `replayed` where an earlier result is given again."""

    books: tuple[CreatedBook, ...]
    replayed: bool


class ImportPreview(Contract):
    """What a file would become. `book` can be sent to the native door unchanged."""

    book: BookCreate
    import_report: ImportReport


class ChangedEntry(Contract):
    """An entry that two revisions have in different form, and which fields differ."""

    id: str
    fields: tuple[str, ...]


class BookDiff(Contract):
    """What has to change in one revision to get another; entries by id, in stored order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ChangedEntry, ...]
    book_fields: tuple[str, ...]
