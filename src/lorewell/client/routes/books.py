"""Books, their revisions, imports and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from lorewell.client.answers import (
    document,
    model,
    nothing,
)
from lorewell.client.calls import (
    ClientCall,
    KeyedOptions,
    QueryValue,
    Repeatability,
    RouteArguments,
    Session,
    TenantOptions,
    bad_parameter,
    page_of,
    segment,
)
from lorewell.model import (
    BookCreate,
    BookDiff,
    BookHead,
    BookPage,
    CreateResult,
    ImportBatch,
    ImportPreview,
    Published,
    PublishRequest,
    RestoreRequest,
    RevisionPage,
    StoredBook,
)
from lorewell.model.imports import ExportFormat
from lorewell.model.index import IndexBuilt, IndexPage, IndexRequest, IndexState
from lorewell.model.parse import parse_model
from lorewell.model.text import text_flaw

BOOKS = "/v1/books"


def create_book(
    session: Session, book: BookCreate, **options: Unpack[KeyedOptions]
) -> ClientCall[CreateResult]:
    """Store a new book; it becomes revision 1."""
    ask = RouteArguments(method="POST", path=BOOKS, kind=Repeatability.KEYED, body=book)
    return session.call(ask, model(CreateResult), options)


def list_books(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    name_contains: str | None = None,
    include_deleted: bool = False,
    **options: Unpack[TenantOptions],
) -> ClientCall[BookPage]:
    """Return a page of books, last changed first; pass its `next_cursor` for the next page."""
    filters = {"q": name_contains, "include_deleted": include_deleted or None}
    query = page_of(limit, cursor) | filters
    ask = RouteArguments(method="GET", path=BOOKS, kind=Repeatability.READ, query=query)
    return session.call(ask, model(BookPage), options)


def get_book(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[StoredBook]:
    """Return a book with one of its revisions, by default the latest."""
    query = {"revision": revision}
    ask = RouteArguments(method="GET", path=_book(book_id), kind=Repeatability.READ, query=query)
    return session.call(ask, model(StoredBook), options)


def export_book(
    session: Session,
    book_id: str,
    *,
    format: ExportFormat,  # noqa: A002  the route's name
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[dict[str, object]]:
    """Return a book as a document in another program's format, or in Lorewell's own."""
    query: dict[str, QueryValue] = {"format": format, "revision": revision}
    ask = RouteArguments(
        method="GET", path=f"{_book(book_id)}/export", kind=Repeatability.READ, query=query
    )
    return session.call(ask, document, options)


def delete_book(
    session: Session,
    book_id: str,
    *,
    expected_revision: int | None = None,
    force: bool = False,
    **options: Unpack[TenantOptions],
) -> ClientCall[None]:
    """Delete a book; `force` deletes one that a prompt uses. It can be restored."""
    query: dict[str, QueryValue] = {"expected_revision": expected_revision, "force": force or None}
    ask = RouteArguments(
        method="DELETE", path=_book(book_id), kind=Repeatability.WRITE, query=query
    )
    return session.call(ask, nothing, options)


def restore_book(
    session: Session, book_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[BookHead]:
    """Restore a deleted book; a book that is not deleted stays as it is."""
    ask = RouteArguments(method="POST", path=f"{_book(book_id)}/restore", kind=Repeatability.WRITE)
    return session.call(ask, model(BookHead), options)


def list_revisions(
    session: Session,
    book_id: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[RevisionPage]:
    """Return a page of a book's revisions without their entries, newest first."""
    path, query = f"{_book(book_id)}/revisions", page_of(limit, cursor)
    ask = RouteArguments(method="GET", path=path, kind=Repeatability.READ, query=query)
    return session.call(ask, model(RevisionPage), options)


def publish_revision(
    session: Session,
    book_id: str,
    book: BookCreate,
    *,
    expected_revision: int,
    **options: Unpack[KeyedOptions],
) -> ClientCall[Published]:
    """Store the whole book as its next revision, if its head is the expected one."""
    request = parse_model(
        PublishRequest,
        {
            **{name: getattr(book, name) for name in book.model_fields_set},
            "expected_revision": expected_revision,
        },
    )
    path = f"{_book(book_id)}/revisions"
    ask = RouteArguments(method="POST", path=path, kind=Repeatability.KEYED, body=request)
    return session.call(ask, model(Published), options)


def compare_revisions(
    session: Session,
    book_id: str,
    first: int,
    second: int,
    *,
    values: bool = False,
    **options: Unpack[TenantOptions],
) -> ClientCall[BookDiff]:
    """Return the changes from the first revision to the second, with `values` those of fields."""
    query = {"from": first, "to": second, "values": values or None}
    ask = RouteArguments(
        method="GET", path=f"{_book(book_id)}/diff", kind=Repeatability.READ, query=query
    )
    return session.call(ask, model(BookDiff), options)


def restore_revision(
    session: Session,
    book_id: str,
    revision: int,
    *,
    expected_revision: int,
    **options: Unpack[KeyedOptions],
) -> ClientCall[Published]:
    """Store an old revision again as the next one, if the book's head is the expected one."""
    request = parse_model(RestoreRequest, {"expected_revision": expected_revision})
    path = f"{_book(book_id)}/revisions/{revision}/restore"
    ask = RouteArguments(method="POST", path=path, kind=Repeatability.KEYED, body=request)
    return session.call(ask, model(Published), options)


def import_books(
    session: Session, books: Sequence[BookCreate], **options: Unpack[KeyedOptions]
) -> ClientCall[CreateResult]:
    """Store 1 to 10 new books, all or none; results come in the same order."""
    batch = parse_model(ImportBatch, {"books": tuple(books)})
    ask = RouteArguments(method="POST", path="/v1/imports", kind=Repeatability.KEYED, body=batch)
    return session.call(ask, model(CreateResult), options)


def preview_import(
    session: Session, name: str, data: bytes, **options: Unpack[TenantOptions]
) -> ClientCall[ImportPreview]:
    """Preview the import of a file of another program; nothing is stored."""
    path, part = "/v1/imports/preview", ("file", (_file_name(name), data))
    ask = RouteArguments(method="POST", path=path, kind=Repeatability.READ, files=(part,))
    return session.call(ask, model(ImportPreview), options)


def import_files(
    session: Session, files: Sequence[tuple[str, bytes]], **options: Unpack[KeyedOptions]
) -> ClientCall[CreateResult]:
    """Store the books of 1 to 10 files, given by name and bytes, all or none.

    A file that was stored before returns the book of that time.
    """
    parts = tuple(("files", (_file_name(name), data)) for name, data in files)
    if not parts:
        raise bad_parameter("files", "must hold at least one file")
    ask = RouteArguments(
        method="POST", path="/v1/imports/files", kind=Repeatability.KEYED, files=parts
    )
    return session.call(ask, model(CreateResult), options)


def build_index(
    session: Session,
    book_id: str,
    revision: int,
    *,
    force: bool = False,
    background: bool = False,
    **options: Unpack[TenantOptions],
) -> ClientCall[IndexBuilt]:
    """Build the vector index of a revision; `force` rebuilds one that is ready.

    With `background` the answer comes at once; `get_index` returns the progress.
    """
    request = parse_model(IndexRequest, {"revision": revision, "force": force})
    query = {"background": background or None}
    path = f"{_book(book_id)}/index"
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.WRITE, query=query, body=request
    )
    return session.call(ask, model(IndexBuilt), options)


def get_index(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[IndexState]:
    """Return the state of a revision's index, by default of the latest revision."""
    query = {"revision": revision}
    ask = RouteArguments(
        method="GET", path=f"{_book(book_id)}/index", kind=Repeatability.READ, query=query
    )
    return session.call(ask, model(IndexState), options)


def list_indexes(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    stale: bool = False,
    **options: Unpack[TenantOptions],
) -> ClientCall[IndexPage]:
    """Return a page of the indexes of revisions in use; with `stale`, of those no search can use.

    Revisions in use are the latest of each book, and those that a binding names.
    """
    query = page_of(limit, cursor) | {"stale": stale or None}
    ask = RouteArguments(method="GET", path="/v1/indexes", kind=Repeatability.READ, query=query)
    return session.call(ask, model(IndexPage), options)


def _book(book_id: str) -> str:
    return f"{BOOKS}/{segment(book_id)}"


def _file_name(name: str) -> str:
    flaw = text_flaw(name)
    if flaw:
        raise bad_parameter("files", f"the name of a file: {flaw}")
    return name
