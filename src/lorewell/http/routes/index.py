"""Vector indexes of revisions."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.indexing import build_index as build, index_state
from lorewell.errors import BookNotFoundError, RevisionNotFoundError, VectorDisabledError
from lorewell.http.calls import OK, Reading, Writing, answer
from lorewell.http.openapi import json_body, told
from lorewell.http.parameters import BookId, Revision
from lorewell.model.index import IndexRequest, IndexState

TAG = "index"
_PROBLEMS = (BookNotFoundError, RevisionNotFoundError)

router = APIRouter()


@router.post(
    "/v1/books/{book_id}/index",
    **told(
        *_PROBLEMS,
        VectorDisabledError,
        gives={OK: IndexState},
        takes=json_body(IndexRequest, {"revision": 1}),
    ),
)
async def build_index(call: Writing, book_id: BookId) -> Response:
    """Build the index of a revision, unless it is ready already."""
    asked = await call.body(IndexRequest)
    return answer(await build(call.services, call.tenant_id, book_id, asked.revision))


@router.get("/v1/books/{book_id}/index", **told(*_PROBLEMS, gives={OK: IndexState}))
async def get_index(call: Reading, book_id: BookId, revision: Revision = None) -> Response:
    """Return how far the index of a revision is, of the latest one if none is named."""
    return answer(await index_state(call.services, call.tenant_id, book_id, revision))
