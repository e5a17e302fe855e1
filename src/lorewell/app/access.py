"""API keys: who may do what with whose books (§13)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import get_args

from lorewell.app.ports import Transaction
from lorewell.app.rows import KeyRow
from lorewell.app.services import Services
from lorewell.app.times import stamp
from lorewell.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from lorewell.model import ApiKey, CreatedKey, KeyList, KeyRequest, Scope
from lorewell.model.access import ALL_TENANTS

_PREFIX = "lw"
_ID_BYTES = 8
_SECRET_BYTES = 32
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Need:
    """What a request needs: a scope, and a tenant unless it crosses all of them."""

    scope: Scope
    tenant_id: str | None


async def authorise(services: Services, authorization: str | None, need: Need) -> None:
    """Let a request pass, or say why not; nothing is looked up for it before.

    Args:
        services: whose keys.
        authorization: the header `Authorization`, `Bearer <key>`.
        need: what the request needs.

    Raises:
        UnauthenticatedError: there is no key, or it is none of ours.
        ForbiddenError: the key does not open this.
    """
    if not services.auth:
        return
    row = await _find(services, authorization)
    if need.scope not in row.scopes:
        raise ForbiddenError(f"This API key has no scope {need.scope!r}.", scope=need.scope)
    if need.tenant_id is not None and not {need.tenant_id, ALL_TENANTS} & set(row.tenants):
        raise ForbiddenError("This API key does not open this tenant.")


@dataclass(frozen=True, slots=True)
class Entered:
    """Where a caller that names no tenant is, and what it may do there."""

    tenant_id: str
    scopes: frozenset[Scope]


async def enter(
    services: Services, authorization: str | None, scope: Scope, *, usual_tenant: str
) -> Entered:
    """Return the tenant of a caller that can't name one: the one that its key opens, or the usual.

    Args:
        services: whose keys.
        authorization: the header `Authorization`, `Bearer <key>`.
        scope: what is needed at least.
        usual_tenant: counts without keys, and for a key that opens several; empty for none.

    Raises:
        UnauthenticatedError: there is no key, or it is none of ours.
        ForbiddenError: the key does not open this, or nothing says which tenant is meant.
    """
    if services.auth:
        row = await _find(services, authorization)
        opened, scopes = set(row.tenants), frozenset(row.scopes)
        if scope not in scopes:
            raise ForbiddenError(f"This API key has no scope {scope!r}.", scope=scope)
    else:
        opened, scopes = {ALL_TENANTS}, frozenset(get_args(Scope))
    if len(opened) == 1 and ALL_TENANTS not in opened:
        return Entered(opened.pop(), scopes)
    if not usual_tenant or not {usual_tenant, ALL_TENANTS} & opened:
        message = "Nothing says which tenant is meant; see LOREWELL_GATEWAY_TENANT."
        raise ForbiddenError(message)
    return Entered(usual_tenant, scopes)


async def _find(services: Services, authorization: str | None) -> KeyRow:
    kind, _, key = (authorization or "").partition(" ")
    prefix, _, rest = key.strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if kind.lower() != "bearer" or prefix != _PREFIX or not secret:
        raise UnauthenticatedError("This service asks for an API key: Authorization: Bearer <key>.")
    row = await services.store.read(lambda tx: tx.find_key(key_id))
    # An unknown key takes the same way, so that the time tells nothing.
    known = hash_secret(secret, row.salt if row else bytes(_SALT_BYTES))
    matches = hmac.compare_digest(known, row.secret_hash if row else bytes(len(known)))
    if row is None or row.revoked_at is not None or not matches:
        raise UnauthenticatedError("This API key is unknown or revoked.")
    return row


def hash_secret(secret: str, salt: bytes) -> bytes:
    """Return what is stored of a secret. It is random and long, so one round is enough."""
    return hashlib.sha256(salt + secret.encode()).digest()


async def create_key(services: Services, request: KeyRequest) -> CreatedKey:
    """Make a key. Its secret is told this once and stored nowhere."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    salt = secrets.token_bytes(_SALT_BYTES)
    row = KeyRow(
        key_id=secrets.token_hex(_ID_BYTES),
        name=request.name,
        tenants=request.tenants,
        scopes=request.scopes,
        salt=salt,
        secret_hash=hash_secret(secret, salt),
        created_at=services.clock.now(),
    )
    await services.store.write(lambda tx: tx.insert_key(row))
    return CreatedKey(**_shown(row).model_dump(), secret=f"{_PREFIX}_{row.key_id}_{secret}")


async def list_keys(services: Services) -> KeyList:
    """Return all keys without their secrets, oldest first, revoked ones too."""
    rows = await services.store.read(lambda tx: tx.list_keys())
    return KeyList(keys=tuple(_shown(row) for row in rows))


async def revoke_key(services: Services, key_id: str) -> None:
    """Close a key for good.

    Raises:
        NotFoundError: there is no such key.
    """

    def work(tx: Transaction) -> None:
        if tx.find_key(key_id) is None:
            raise NotFoundError(f"There is no API key {key_id}.")
        tx.revoke_key(key_id, services.clock.now())

    await services.store.write(work)


def _shown(row: KeyRow) -> ApiKey:
    return ApiKey(
        id=row.key_id,
        name=row.name,
        tenants=row.tenants,
        scopes=row.scopes,
        created_at=stamp(row.created_at),
        revoked_at=None if row.revoked_at is None else stamp(row.revoked_at),
    )
