"""The books that a prompt uses."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.bindings import (
    get_bindings as get,
    list_prompts as list_page,
    put_bindings as put,
    resolve,
)
from lorewell.app.pages import PageRequest
from lorewell.errors import BindingInvalidError, BookNotFoundError, RevisionNotFoundError
from lorewell.http.calls import OK, Reading, Writing, answer
from lorewell.http.examples import BOOK_ID
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import BookId, Cursor, Limit, PromptId
from lorewell.model import BindingSet, BindingsPut, ResolvedBindings
from lorewell.model.binding import PromptPage

TAG = "bindings"

router = APIRouter()


@router.put(
    "/v1/prompt-bindings",
    **documented(
        BookNotFoundError,
        RevisionNotFoundError,
        gives={OK: BindingSet},
        takes=json_body(BindingsPut, {"bindings": [{"book_id": BOOK_ID, "revision": 1}]}, SMALL),
    ),
)
async def put_bindings(call: Writing, prompt_id: PromptId) -> Response:
    """Replace all bindings of a prompt."""
    bindings = await call.body(BindingsPut)
    return answer(await put(call.services, call.tenant_id, prompt_id, bindings))


@router.get("/v1/prompt-bindings", **documented(gives={OK: BindingSet}))
async def get_bindings(call: Reading, prompt_id: PromptId) -> Response:
    """Return the stored bindings of a prompt, including disabled ones."""
    return answer(await get(call.services, call.tenant_id, prompt_id))


@router.get(
    "/v1/prompt-bindings/resolve",
    **documented(BindingInvalidError, gives={OK: ResolvedBindings}),
)
async def resolve_bindings(call: Reading, prompt_id: PromptId) -> Response:
    """Return the revisions that a prompt uses now, in order."""
    return answer(await resolve(call.services, call.tenant_id, prompt_id))


@router.get("/v1/prompts", **documented(gives={OK: PromptPage}))
async def list_prompts(call: Reading, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Return a page of the prompts that use books, by name."""
    page = PageRequest(limit=limit, cursor=cursor)
    return answer(await list_page(call.services, call.tenant_id, page))


@router.get("/v1/books/{book_id}/prompts", **documented(BookNotFoundError, gives={OK: PromptPage}))
async def list_book_prompts(
    call: Reading, book_id: BookId, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Return a page of the prompts that use a book, by name."""
    page = PageRequest(limit=limit, cursor=cursor)
    return answer(await list_page(call.services, call.tenant_id, page, book_id=book_id))
