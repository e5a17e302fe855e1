"""API keys, which are not rows of a tenant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, bindparam, insert, select, update

from lorewell.app.rows import KeyRow
from lorewell.store.statements import Statements
from lorewell.store.tables import api_keys

_FIND = select(api_keys).where(api_keys.c.key_id == bindparam("id"))
_LIST = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.key_id)
_INSERT = insert(api_keys)
_REVOKE = update(api_keys).where(
    api_keys.c.key_id == bindparam("id"), api_keys.c.revoked_at.is_(None)
)


class KeyStatements(Statements):
    """The statements on API keys."""

    def insert_key(self, row: KeyRow) -> None:
        """Add an API key."""
        self._change(
            _INSERT,
            key_id=row.key_id,
            name=row.name,
            tenants=json.dumps(row.tenants),
            scopes=json.dumps(row.scopes),
            salt=row.salt,
            secret_hash=row.secret_hash,
            created_at=row.created_at,
            revoked_at=row.revoked_at,
        )

    def find_key(self, key_id: str) -> KeyRow | None:
        """Return an API key, even if it is revoked."""
        found = self._row(_FIND, id=key_id)
        return None if found is None else _key(found)

    def list_keys(self) -> Sequence[KeyRow]:
        """Return all API keys, oldest first."""
        return [_key(row) for row in self._rows(_LIST)]

    def revoke_key(self, key_id: str, revoked_at: datetime) -> None:
        """Revoke a key permanently; a revoked key stays as it is."""
        self._change(_REVOKE, id=key_id, revoked_at=revoked_at)


def _key(row: RowMapping) -> KeyRow:
    fields = {
        **row,
        "tenants": tuple(json.loads(row["tenants"])),
        "scopes": tuple(json.loads(row["scopes"])),
    }
    return KeyRow(**fields)
