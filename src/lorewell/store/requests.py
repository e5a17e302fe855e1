"""Kept requests, from which ledgers can be computed later."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, delete, select

from lorewell.app.rows import KeptRequest
from lorewell.store.statements import Statements
from lorewell.store.tables import kept_requests

_FIND = select(kept_requests).where(
    kept_requests.c.tenant_id == bindparam("tenant"),
    kept_requests.c.selection_id == bindparam("selection"),
)
_DROP = delete(kept_requests).where(kept_requests.c.expires_at <= bindparam("expired_by"))


class RequestStatements(Statements):
    """The statements on kept requests."""

    def keep_request(self, kept: KeptRequest) -> None:
        """Store a request, in place of one with the same id."""
        row = {
            "tenant_id": kept.tenant_id,
            "selection_id": kept.selection_id,
            "body": kept.body,
            "expires_at": kept.expires_at,
        }
        self._put(kept_requests, row)

    def find_request(self, tenant_id: str, selection_id: str) -> KeptRequest | None:
        """Return a kept request, even if it expired."""
        found = self._row(_FIND, tenant=tenant_id, selection=selection_id)
        return None if found is None else KeptRequest(**found)

    def drop_requests(self, expired_by: datetime) -> int:
        """Delete the requests that expired by then; return how many."""
        return self._change(_DROP, expired_by=expired_by)
