"""Imports of several native books at once, or of files of other programs."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.books import create_books
from lorewell.app.imports import import_files as store_files, preview
from lorewell.errors import (
    BatchTooLargeError,
    FileTooLargeError,
    IdempotencyConflictError,
    ImportInvalidError,
    InvalidDependencyError,
    TooExpensiveError,
)
from lorewell.http.calls import CREATED, OK, Reading, Writing, answer, answer_created
from lorewell.http.examples import BOOK
from lorewell.http.limits import BOOKS
from lorewell.http.openapi import documented, file_body, json_body
from lorewell.http.parameters import IdempotencyKey
from lorewell.http.routes.books import FIRST_BOOK
from lorewell.model import CreateResult, ImportBatch, ImportPreview

TAG = "imports"
_MAX_FILES = 10

router = APIRouter()


@router.post(
    "/v1/imports",
    **documented(
        InvalidDependencyError,
        IdempotencyConflictError,
        gives={CREATED: CreateResult, OK: CreateResult},
        takes=json_body(ImportBatch, {"books": [BOOK]}, BOOKS),
        leads_to={"book": ("get_book", FIRST_BOOK)},
    ),
)
async def import_books(call: Writing, idempotency_key: IdempotencyKey = None) -> Response:
    """Store several new books, all or none."""
    batch = await call.body(ImportBatch)
    result = await create_books(
        call.services, call.tenant_id, batch.books, route="import", key=idempotency_key
    )
    return await call.finish(lambda: answer_created(result))


@router.post(
    "/v1/imports/preview",
    **documented(
        ImportInvalidError,
        InvalidDependencyError,
        FileTooLargeError,
        BatchTooLargeError,
        TooExpensiveError,
        gives={OK: ImportPreview},
        takes=file_body("file", 1),
    ),
)
async def preview_import(call: Reading) -> Response:
    """Preview the import of a file of another program; nothing is stored."""
    (file,) = await call.files("file", 1)
    found = await preview(call.services, call.tenant_id, file)
    return await call.finish(lambda: answer(found))


@router.post(
    "/v1/imports/files",
    **documented(
        ImportInvalidError,
        InvalidDependencyError,
        IdempotencyConflictError,
        FileTooLargeError,
        BatchTooLargeError,
        TooExpensiveError,
        gives={CREATED: CreateResult, OK: CreateResult},
        takes=file_body("files", _MAX_FILES),
        leads_to={"book": ("get_book", FIRST_BOOK)},
    ),
)
async def import_files(call: Writing, idempotency_key: IdempotencyKey = None) -> Response:
    """Store the books of files, all or none; a known file returns its stored book."""
    files = await call.files("files", _MAX_FILES)
    result = await store_files(call.services, call.tenant_id, files, key=idempotency_key)
    return await call.finish(lambda: answer_created(result))
