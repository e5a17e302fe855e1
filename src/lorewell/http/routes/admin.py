"""The books of all tenants, and API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from lorewell.app.access import create_key as create, list_keys as list_all, revoke_key as revoke
from lorewell.app.books import list_books, list_tenants as list_all_tenants, read_book
from lorewell.app.pages import PageRequest
from lorewell.errors import BookNotFoundError, NotFoundError, RevisionNotFoundError
from lorewell.http.calls import (
    CREATED,
    NO_CONTENT,
    OK,
    Administering,
    Managing,
    answer,
    answer_json,
)
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import (
    BookId,
    Cursor,
    IncludeDeleted,
    Limit,
    NameContains,
    Revision,
)
from lorewell.model import BookPage, CreatedKey, KeyList, KeyRequest, StoredBook, TenantList

TAG = "admin"

KeyId = Annotated[str, Path(description="A key's id.")]

_KEY = {"name": "studio", "tenants": ["demo"], "scopes": ["read"]}

router = APIRouter()


@router.get("/v1/admin/tenants", **documented(gives={OK: TenantList}))
async def list_tenants(call: Administering) -> Response:
    """Return all tenants that have a book."""
    return answer(await list_all_tenants(call.services))


@router.get("/v1/admin/books", **documented(gives={OK: BookPage}))
async def list_all_books(
    call: Administering,
    limit: Limit = 50,
    cursor: Cursor = None,
    name_contains: NameContains = None,
    include_deleted: IncludeDeleted = False,  # noqa: FBT002  a query parameter
) -> Response:
    """Return a page of the books of all tenants, last changed first."""
    page = await list_books(
        call.services,
        None,
        PageRequest(limit=limit, cursor=cursor),
        name_contains=name_contains,
        include_deleted=include_deleted,
    )
    return answer(page)


@router.get(
    "/v1/admin/books/{book_id}",
    **documented(BookNotFoundError, RevisionNotFoundError, gives={OK: StoredBook}),
)
async def get_any_book(call: Administering, book_id: BookId, revision: Revision = None) -> Response:
    """Return a book of any tenant, even a deleted one, with one of its revisions."""
    return answer_json(await read_book(call.services, None, book_id, revision))


@router.get("/v1/admin/keys", **documented(gives={OK: KeyList}))
async def list_keys(call: Managing) -> Response:
    """Return all API keys without their secrets, oldest first.

    With the scope `tenant_admin`: the keys whose tenants are all among the caller's own.
    """
    return answer(await list_all(call.services, call.rights))


@router.post(
    "/v1/admin/keys",
    **documented(
        gives={CREATED: CreatedKey},
        takes=json_body(
            KeyRequest, {"name": "studio", "tenants": ["demo"], "scopes": ["read"]}, SMALL
        ),
        leads_to={"revocation": ("revoke_key", {"key_id": "$response.body#/id"})},
    ),
)
async def create_key(call: Managing) -> Response:
    """Create an API key. Only this answer shows its secret.

    With the scope `tenant_admin`: for the caller's own tenants and with the caller's own scopes.
    """
    made = await create(call.services, await call.body(KeyRequest), call.rights)
    return answer(made, CREATED)


@router.delete("/v1/admin/keys/{key_id}", **documented(NotFoundError, gives={NO_CONTENT: None}))
async def revoke_key(call: Managing, key_id: KeyId) -> Response:
    """Revoke an API key permanently."""
    await revoke(call.services, key_id, call.rights)
    return Response(status_code=NO_CONTENT)
