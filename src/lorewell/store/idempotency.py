"""Keys of idempotent requests: each stands for one request and what it answered."""

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
    """What a transaction does with keys of idempotent requests."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._unsettled: set[tuple[str, str]] = set()

    def claim(self, tenant_id: str, key: str, request_hash: str) -> StoredResult | None:
        """Take a key for this transaction, or return what it was taken for before.

        A twin waits in its own insert until this transaction has ended. If it failed, the insert
        of the twin goes through, and the twin takes over.
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
        """Say what a key claimed in this transaction stands for."""
        if (tenant_id, key) not in self._unsettled:
            raise LorewellError("A key was settled that this transaction did not claim.", key=key)
        self._change(_SETTLE, tenant=tenant_id, taken=key, status=status, response=response)
        self._unsettled.remove((tenant_id, key))

    def check_settled(self) -> None:
        """Refuse to commit a key that stands for nothing: its twins could never be answered.

        Raises:
            LorewellError: a key was claimed and not settled.
        """
        if self._unsettled:
            raise LorewellError("A key was claimed and not settled.")
