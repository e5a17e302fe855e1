"""The service itself: tenants, keys, health and figures."""

from __future__ import annotations

from typing import Unpack

from lorewell.client.answers import model, nothing, text
from lorewell.client.calls import (
    Ask,
    Call,
    CallOptions,
    Kind,
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


def list_tenants(session: Session, **options: Unpack[CallOptions]) -> Call[TenantList]:
    """Return all tenants that have a book."""
    ask = Ask(method="GET", path=f"{ADMIN}/tenants", kind=Kind.READ, has_tenant=False)
    return session.call(ask, model(TenantList), options)


def list_all_books(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    name_contains: str | None = None,
    include_deleted: bool = False,
    **options: Unpack[CallOptions],
) -> Call[BookPage]:
    """Return a page of the books of all tenants, last changed first."""
    asked = {"q": name_contains, "include_deleted": include_deleted or None}
    query = page_of(limit, cursor) | asked
    path = f"{ADMIN}/books"
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query, has_tenant=False)
    return session.call(ask, model(BookPage), options)


def get_any_book(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[CallOptions],
) -> Call[StoredBook]:
    """Return a book of any tenant, a deleted one too, with one of its revisions."""
    path, query = f"{ADMIN}/books/{segment(book_id)}", {"revision": revision}
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query, has_tenant=False)
    return session.call(ask, model(StoredBook), options)


def list_keys(session: Session, **options: Unpack[CallOptions]) -> Call[KeyList]:
    """Return all API keys without their secrets, oldest first."""
    ask = Ask(method="GET", path=f"{ADMIN}/keys", kind=Kind.READ, has_tenant=False)
    return session.call(ask, model(KeyList), options)


def create_key(
    session: Session, request: KeyRequest, **options: Unpack[CallOptions]
) -> Call[CreatedKey]:
    """Make an API key. Its secret is shown this once."""
    path = f"{ADMIN}/keys"
    ask = Ask(method="POST", path=path, kind=Kind.WRITE, body=request, has_tenant=False)
    return session.call(ask, model(CreatedKey), options)


def revoke_key(session: Session, key_id: str, **options: Unpack[CallOptions]) -> Call[None]:
    """Close an API key for good."""
    path = f"{ADMIN}/keys/{segment(key_id)}"
    ask = Ask(method="DELETE", path=path, kind=Kind.WRITE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_health(session: Session, **options: Unpack[CallOptions]) -> Call[None]:
    """Return if the service runs; an UnavailableError says that it does not."""
    ask = Ask(method="GET", path="/healthz", kind=Kind.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_readiness(session: Session, **options: Unpack[CallOptions]) -> Call[None]:
    """Return if the service can work; an UnavailableError says that it can't yet."""
    ask = Ask(method="GET", path="/readyz", kind=Kind.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def get_metrics(session: Session, **options: Unpack[CallOptions]) -> Call[str]:
    """Return the figures of the service in Prometheus' text format."""
    ask = Ask(method="GET", path="/metrics", kind=Kind.READ, has_tenant=False)
    return session.call(ask, text, options)
