"""The books that a prompt uses."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.bindings import get_bindings as get, put_bindings as put, resolve
from lorewell.errors import BindingInvalidError, BookNotFoundError, RevisionNotFoundError
from lorewell.http.calls import OK, Reading, Writing, answer
from lorewell.http.examples import BOOK_ID
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import PromptId
from lorewell.model import BindingSet, BindingsPut, ResolvedBindings

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
