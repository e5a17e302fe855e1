"""Searches in the entries of books."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.native.search import search
from lorewell.errors import (
    BookNotFoundError,
    EmbeddingUnavailableError,
    IndexNotReadyError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    VectorDisabledError,
)
from lorewell.http.calls import OK, Reading, answer
from lorewell.http.examples import SEARCH
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.model import SearchRequest, SearchResponse

TAG = "search"

router = APIRouter()


@router.post(
    "/v1/search",
    **documented(
        BookNotFoundError,
        RevisionNotFoundError,
        VectorDisabledError,
        IndexNotReadyError,
        EmbeddingUnavailableError,
        SnapshotTooLargeError,
        gives={OK: SearchResponse},
        takes=json_body(SearchRequest, SEARCH, SMALL),
    ),
)
async def search_books(call: Reading) -> Response:
    """Return the matching entries, best first; the filters of a selection do not apply."""
    request = await call.body(SearchRequest)
    return answer(await search(call.services, call.tenant_id, request))
