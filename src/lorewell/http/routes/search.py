"""Searching the entries of books."""

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
from lorewell.http.openapi import json_body, told
from lorewell.model import SearchRequest, SearchResponse

TAG = "search"

router = APIRouter()


@router.post(
    "/v1/search",
    **told(
        BookNotFoundError,
        RevisionNotFoundError,
        VectorDisabledError,
        IndexNotReadyError,
        EmbeddingUnavailableError,
        SnapshotTooLargeError,
        gives={OK: SearchResponse},
        takes=json_body(SearchRequest, SEARCH),
    ),
)
async def search_books(call: Reading) -> Response:
    """Return the entries that match, best first; no filter of a selection applies."""
    request = await call.body(SearchRequest)
    return answer(await search(call.services, call.tenant_id, request))
