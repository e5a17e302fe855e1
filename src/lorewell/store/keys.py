"""API keys, which belong to no tenant."""

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
    """What a transaction does with API keys."""

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
        """Return an API key, revoked ones too."""
        found = self._row(_FIND, id=key_id)
        return None if found is None else _key(found)

    def list_keys(self) -> Sequence[KeyRow]:
        """Return all API keys, oldest first."""
        return [_key(row) for row in self._rows(_LIST)]

    def revoke_key(self, key_id: str, revoked_at: datetime) -> None:
        """Close a key for good; one that is closed already stays as it was."""
        self._change(_REVOKE, id=key_id, revoked_at=revoked_at)


def _key(row: RowMapping) -> KeyRow:
    fields = {
        **row,
        "tenants": tuple(json.loads(row["tenants"])),
        "scopes": tuple(json.loads(row["scopes"])),
    }
    return KeyRow(**fields)
