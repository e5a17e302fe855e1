"""Books: create, list, read, delete and restore."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.books import (
    create_books,
    delete_book as delete,
    export,
    list_books as list_page,
    read_book,
    restore_book as restore,
)
from lorewell.app.pages import PageRequest
from lorewell.errors import (
    BookBoundError,
    BookNotFoundError,
    IdempotencyConflictError,
    InvalidDependencyError,
    RevisionConflictError,
    RevisionNotFoundError,
)
from lorewell.http.calls import (
    CREATED,
    NO_CONTENT,
    OK,
    Reading,
    Writing,
    answer,
    answer_created,
    answer_file,
    answer_json,
)
from lorewell.http.examples import BOOK
from lorewell.http.limits import BOOKS
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import (
    BookId,
    Cursor,
    ExpectedRevision,
    Force,
    IdempotencyKey,
    IncludeDeleted,
    Limit,
    NameContains,
    Revision,
    Target,
)
from lorewell.model import BookCreate, BookHead, BookPage, CreateResult, StoredBook

TAG = "books"
FIRST_BOOK = {"book_id": "$response.body#/books/0/book_id"}

router = APIRouter()


@router.post(
    "/v1/books",
    **documented(
        InvalidDependencyError,
        IdempotencyConflictError,
        gives={CREATED: CreateResult, OK: CreateResult},
        takes=json_body(BookCreate, BOOK, BOOKS),
        leads_to={
            "book": ("get_book", FIRST_BOOK),
            "revisions": ("list_revisions", FIRST_BOOK),
            "deletion": ("delete_book", FIRST_BOOK),
        },
    ),
)
async def create_book(call: Writing, idempotency_key: IdempotencyKey = None) -> Response:
    """Store a new book as revision 1. The status is 200 if the idempotency key was used before."""
    book = await call.body(BookCreate)
    result = await create_books(
        call.services, call.tenant_id, [book], route="book", key=idempotency_key
    )
    return answer_created(result)


@router.get("/v1/books", **documented(gives={OK: BookPage}))
async def list_books(
    call: Reading,
    limit: Limit = 50,
    cursor: Cursor = None,
    name_contains: NameContains = None,
    include_deleted: IncludeDeleted = False,  # noqa: FBT002  a query parameter
) -> Response:
    """Return a page of books, last changed first."""
    page = await list_page(
        call.services,
        call.tenant_id,
        PageRequest(limit=limit, cursor=cursor),
        name_contains=name_contains,
        include_deleted=include_deleted,
    )
    return answer(page)


@router.get(
    "/v1/books/{book_id}",
    **documented(BookNotFoundError, RevisionNotFoundError, gives={OK: StoredBook}),
)
async def get_book(call: Reading, book_id: BookId, revision: Revision = None) -> Response:
    """Return a book with one of its revisions, by default the latest."""
    return answer_json(await read_book(call.services, call.tenant_id, book_id, revision))


@router.get(
    "/v1/books/{book_id}/export",
    **documented(
        BookNotFoundError,
        RevisionNotFoundError,
        gives={OK: {"application/json": {"schema": {"type": "object"}}}},
    ),
)
async def export_book(
    call: Reading, book_id: BookId, target: Target, revision: Revision = None
) -> Response:
    """Return a book as a file: in the native format, as world info, or as a card's book."""
    name, content = await export(call.services, call.tenant_id, book_id, revision, target=target)
    return answer_file(name, content)


@router.delete(
    "/v1/books/{book_id}",
    **documented(
        BookNotFoundError, RevisionConflictError, BookBoundError, gives={NO_CONTENT: None}
    ),
)
async def delete_book(
    call: Writing,
    book_id: BookId,
    expected_revision: ExpectedRevision = None,
    force: Force = False,  # noqa: FBT002  a query parameter
) -> Response:
    """Delete a book. Its revisions stay, and it can be restored."""
    await delete(
        call.services, call.tenant_id, book_id, expected_revision=expected_revision, force=force
    )
    return Response(status_code=NO_CONTENT)


@router.post("/v1/books/{book_id}/restore", **documented(BookNotFoundError, gives={OK: BookHead}))
async def restore_book(call: Writing, book_id: BookId) -> Response:
    """Restore a deleted book; a book that is not deleted stays as it is."""
    return answer(await restore(call.services, call.tenant_id, book_id))
