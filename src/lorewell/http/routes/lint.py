"""Mistakes in books."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.lint import lint_book
from lorewell.errors import (
    BookNotFoundError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    TooExpensiveError,
)
from lorewell.http.calls import OK, Reading, answer_json
from lorewell.http.examples import LINT
from lorewell.http.limits import BOOKS
from lorewell.http.openapi import documented, json_body
from lorewell.model import LintAnswer, LintRequest

TAG = "lint"

router = APIRouter()


@router.post(
    "/v1/lint",
    **documented(
        TooExpensiveError,
        BookNotFoundError,
        RevisionNotFoundError,
        SnapshotTooLargeError,
        gives={OK: LintAnswer},
        takes=json_body(LintRequest, LINT, BOOKS),
    ),
)
async def lint(call: Reading) -> Response:
    """Return the mistakes in a book that is stored, changed, or sent whole; nothing is stored."""
    found = await lint_book(call.services, call.tenant_id, await call.body(LintRequest))
    return answer_json(await call.finish(lambda: found.model_dump_json().encode()))
