"""Routes for the service itself: tenants, keys, health and metrics."""

from __future__ import annotations

from typing import Unpack

from lorewell.client.answers import model, nothing, text
from lorewell.client.calls import (
    CallOptions,
    ClientCall,
    Repeatability,
    RouteArguments,
    Session,
    page_of,
    segment,
)
from lorewell.model import (
    BookPage,
    CreatedKey,
    KeyList,
    KeyRequest,
    StoredBook,
    TenantList,
)

ADMIN = "/v1/admin"


def list_tenants(session: Session, **options: Unpack[CallOptions]) -> ClientCall[TenantList]:
    """Return all tenants that have a book."""
    ask = RouteArguments(
        method="GET", path=f"{ADMIN}/tenants", kind=Repeatability.READ, has_tenant=False
    )
    return session.call(ask, model(TenantList), options)


def list_all_books(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    name_contains: str | None = None,
    include_deleted: bool = False,
    **options: Unpack[CallOptions],
) -> ClientCall[BookPage]:
    """Return a page of the books of all tenants, last changed first."""
    filters = {"q": name_contains, "include_deleted": include_deleted or None}
    query = page_of(limit, cursor) | filters
    path = f"{ADMIN}/books"
    ask = RouteArguments(
        method="GET", path=path, kind=Repeatability.READ, query=query, has_tenant=False
    )
    return session.call(ask, model(BookPage), options)


def get_any_book(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[CallOptions],
) -> ClientCall[StoredBook]:
    """Return a book of any tenant, even a deleted one, with one of its revisions."""
    path, query = f"{ADMIN}/books/{segment(book_id)}", {"revision": revision}
    ask = RouteArguments(
        method="GET", path=path, kind=Repeatability.READ, query=query, has_tenant=False
    )
    return session.call(ask, model(StoredBook), options)


def list_keys(session: Session, **options: Unpack[CallOptions]) -> ClientCall[KeyList]:
    """Return all API keys without their secrets, oldest first."""
    ask = RouteArguments(
        method="GET", path=f"{ADMIN}/keys", kind=Repeatability.READ, has_tenant=False
    )
    return session.call(ask, model(KeyList), options)


def create_key(
    session: Session, request: KeyRequest, **options: Unpack[CallOptions]
) -> ClientCall[CreatedKey]:
    """Create an API key. Only this answer shows its secret."""
    path = f"{ADMIN}/keys"
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.WRITE, body=request, has_tenant=False
    )
    return session.call(ask, model(CreatedKey), options)


def revoke_key(session: Session, key_id: str, **options: Unpack[CallOptions]) -> ClientCall[None]:
    """Revoke an API key permanently."""
    path = f"{ADMIN}/keys/{segment(key_id)}"
    ask = RouteArguments(method="DELETE", path=path, kind=Repeatability.WRITE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_health(session: Session, **options: Unpack[CallOptions]) -> ClientCall[None]:
    """Return if the service runs; raise UnavailableError if it does not."""
    ask = RouteArguments(method="GET", path="/healthz", kind=Repeatability.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_readiness(session: Session, **options: Unpack[CallOptions]) -> ClientCall[None]:
    """Return if the service is ready; raise UnavailableError if it is not yet."""
    ask = RouteArguments(method="GET", path="/readyz", kind=Repeatability.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def get_metrics(session: Session, **options: Unpack[CallOptions]) -> ClientCall[str]:
    """Return the service's metrics in the Prometheus text format."""
    ask = RouteArguments(method="GET", path="/metrics", kind=Repeatability.READ, has_tenant=False)
    return session.call(ask, text, options)
