"""The secret of each tenant, under which the lines of its conversations are hashed."""

from __future__ import annotations

import secrets
from typing import Final

from lorewell.app.ports import Store

SECRET_BYTES: Final = 32
_MAX_TENANTS: Final = 10_000


class TenantSecrets:
    """The secrets that this process has read. They never change."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[str, bytes] = {}

    async def get(self, store: Store, tenant_id: str, *, make: bool) -> bytes:
        """Return the secret of a tenant.

        Args:
            store: where the secrets are stored.
            tenant_id: the tenant.
            make: store a new one if there is none. Else it is good for this call only: a tenant
                without a secret has no lines.
        """
        known = self._known.get(tenant_id)
        if known is not None:
            return known
        found = await store.read(lambda tx: tx.find_secret(tenant_id))
        if found is None:
            new = secrets.token_bytes(SECRET_BYTES)
            if not make:
                return new
            found = await store.write(lambda tx: tx.add_secret(tenant_id, new))
        if len(self._known) >= _MAX_TENANTS:
            self._known.clear()
        self._known[tenant_id] = found
        return found
