"""Revisions of a book: publish, list, compare and restore."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.books import (
    diff,
    list_revisions as list_page,
    publish,
    restore_revision as restore,
)
from lorewell.app.pages import PageRequest
from lorewell.errors import (
    BookNotFoundError,
    IdempotencyConflictError,
    InvalidDependencyError,
    RevisionConflictError,
    RevisionNotFoundError,
)
from lorewell.http.calls import CREATED, OK, Reading, Writing, answer
from lorewell.http.examples import BOOK
from lorewell.http.limits import BOOKS, SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import (
    BookId,
    Cursor,
    From,
    IdempotencyKey,
    Limit,
    RevisionPath,
    To,
    WithValues,
)
from lorewell.model import (
    BookDiff,
    Published,
    PublishRequest,
    RestoreRequest,
    RevisionPage,
)

TAG = "revisions"

router = APIRouter()


@router.get(
    "/v1/books/{book_id}/revisions", **documented(BookNotFoundError, gives={OK: RevisionPage})
)
async def list_revisions(
    call: Reading, book_id: BookId, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Return a page of a book's revisions without their entries, newest first."""
    page = PageRequest(limit=limit, cursor=cursor)
    return answer(await list_page(call.services, call.tenant_id, book_id, page))


@router.post(
    "/v1/books/{book_id}/revisions",
    **documented(
        BookNotFoundError,
        InvalidDependencyError,
        RevisionConflictError,
        IdempotencyConflictError,
        gives={CREATED: Published, OK: Published},
        takes=json_body(PublishRequest, {**BOOK, "expected_revision": 1}, BOOKS),
    ),
)
async def publish_revision(
    call: Writing, book_id: BookId, idempotency_key: IdempotencyKey = None
) -> Response:
    """Store the whole book as its next revision, if its head is the expected one."""
    request = await call.body(PublishRequest)
    published = await publish(
        call.services,
        call.tenant_id,
        book_id,
        request,
        expected_revision=request.expected_revision,
        key=idempotency_key,
    )
    return answer(published, OK if published.replayed else CREATED)


@router.get(
    "/v1/books/{book_id}/diff",
    **documented(BookNotFoundError, RevisionNotFoundError, gives={OK: BookDiff}),
)
async def compare_revisions(
    call: Reading,
    book_id: BookId,
    first: From,
    second: To,
    with_values: WithValues = False,  # noqa: FBT002  a parameter of the query
) -> Response:
    """Return the changes from one revision to another."""
    found = await diff(
        call.services, call.tenant_id, book_id, first=first, second=second, values=with_values
    )
    return answer(found)


@router.post(
    "/v1/books/{book_id}/revisions/{n}/restore",
    **documented(
        BookNotFoundError,
        RevisionNotFoundError,
        RevisionConflictError,
        IdempotencyConflictError,
        gives={CREATED: Published, OK: Published},
        takes=json_body(RestoreRequest, {"expected_revision": 2}, SMALL),
    ),
)
async def restore_revision(
    call: Writing, book_id: BookId, n: RevisionPath, idempotency_key: IdempotencyKey = None
) -> Response:
    """Store an old revision again, as the next one."""
    expected = (await call.body(RestoreRequest)).expected_revision
    published = await restore(
        call.services, call.tenant_id, book_id, n, expected_revision=expected, key=idempotency_key
    )
    return answer(published, OK if published.replayed else CREATED)
