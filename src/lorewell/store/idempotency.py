"""Idempotency keys, each with its request and answer."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, update

from lorewell.app.rows import StoredResult
from lorewell.errors import LorewellError
from lorewell.store.statements import Statements
from lorewell.store.tables import idempotency_keys as keys

_IS_KEY = (keys.c.tenant_id == bindparam("tenant")) & (keys.c.key == bindparam("taken"))
_FIND = select(keys.c.request_hash, keys.c.status, keys.c.response).where(_IS_KEY)
_SETTLE = update(keys).where(_IS_KEY)


class IdempotencyStatements(Statements):
    """The statements on idempotency keys."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._unsettled: set[tuple[str, str]] = set()

    def claim(self, tenant_id: str, key: str, request_hash: str) -> StoredResult | None:
        """Claim a key for this transaction, or return the stored result of an earlier claim.

        A concurrent claim waits in its insert until this transaction ends. If this one fails, that
        insert succeeds, and the other transaction takes over.
        """
        row = {"tenant_id": tenant_id, "key": key, "request_hash": request_hash}
        if self._add(keys, row):
            self._unsettled.add((tenant_id, key))
            return None
        found = self._row(_FIND, tenant=tenant_id, taken=key)
        if found is None or found["status"] is None:
            raise LorewellError("A key was claimed twice in one transaction.", key=key)
        return StoredResult(**found)

    def settle(self, tenant_id: str, key: str, *, status: int, response: bytes) -> None:
        """Store the result of a key that this transaction claimed."""
        if (tenant_id, key) not in self._unsettled:
            raise LorewellError("This transaction settled a key that it did not claim.", key=key)
        self._change(_SETTLE, tenant=tenant_id, taken=key, status=status, response=response)
        self._unsettled.remove((tenant_id, key))

    def check_settled(self) -> None:
        """Refuse to commit a key without a result: repeated requests could never be answered.

        Raises:
            LorewellError: a key was claimed and not settled.
        """
        if self._unsettled:
            raise LorewellError("A key was claimed and not settled.")
