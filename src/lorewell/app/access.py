"""API keys: scopes and tenants of callers (§13)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, get_args

from lorewell.app.ports import Transaction
from lorewell.app.rows import KeyRow
from lorewell.app.services import Services
from lorewell.app.times import stamp
from lorewell.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from lorewell.model import ApiKey, CreatedKey, KeyList, KeyRequest, Scope
from lorewell.model.access import ALL_TENANTS, SERVICE_SCOPES

_PREFIX = "lw"
_ID_BYTES = 8
_MAX_ID_CHARS = 100  # longer ones are unknown, and would be cached
_SECRET_BYTES = 32
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessNeed:
    """The rights that a request needs.

    Attributes:
        scope: the required scope.
        instead: a scope that is sufficient too.
        tenant_id: the tenant of the request; None if it crosses tenants.
    """

    scope: Scope
    instead: Scope | None = None
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """The scopes of a caller, the tenants they apply to, and the id of its key, if any."""

    tenants: frozenset[str]
    scopes: frozenset[Scope]
    key_id: str | None = None

    @property
    def is_admin(self) -> bool:
        """Whether they include administration of the whole service."""
        return "admin" in self.scopes and ALL_TENANTS in self.tenants

    def opens(self, tenant_id: str) -> bool:
        """Return whether they include a tenant."""
        return tenant_id in self.tenants or ALL_TENANTS in self.tenants

    def manages(self, tenants: Iterable[str]) -> bool:
        """Return whether they allow managing keys of these tenants."""
        return self.is_admin or all(self.opens(each) and each != ALL_TENANTS for each in tenants)

    def grants(self, scopes: Iterable[Scope]) -> bool:
        """Return whether they allow giving these scopes to another key."""
        return self.is_admin or set(scopes) <= self.scopes - SERVICE_SCOPES


on_key: ContextVar[Callable[[str], object] | None] = ContextVar("on_key", default=None)
"""Called with the id of the current request's API key if the key is valid."""

ALL_RIGHTS: Final = Rights(frozenset({ALL_TENANTS}), frozenset(get_args(Scope)))


async def authorise(services: Services, authorization: str | None, need: AccessNeed) -> Rights:
    """Check that a request may proceed, before anything else is looked up for it.

    Args:
        services: the service.
        authorization: the `Authorization` header, `Bearer <key>`.
        need: the rights that the request needs.

    Returns:
        The rights of its key.

    Raises:
        UnauthenticatedError: the key is missing, unknown or revoked.
        ForbiddenError: the key lacks the scope or the tenant.
    """
    rights = await _rights_of(services, authorization)
    _check_scope(rights, need)
    if need.tenant_id is not None and not rights.opens(need.tenant_id):
        raise ForbiddenError("This API key has no access to this tenant.")
    return rights


async def _rights_of(services: Services, authorization: str | None) -> Rights:
    if not services.auth:
        return ALL_RIGHTS
    row = await _find(services, authorization)
    return Rights(frozenset(row.tenants), frozenset(row.scopes), row.key_id)


def _check_scope(rights: Rights, need: AccessNeed) -> None:
    held = rights.scopes & {need.scope, need.instead}
    if not held:
        raise ForbiddenError(f"This API key has no scope {need.scope!r}.", scope=need.scope)
    if held <= SERVICE_SCOPES and ALL_TENANTS not in rights.tenants:
        message = (
            f"The scope {min(held)!r} applies to the whole service, but this API key is limited to "
            f"some tenants. Create a key with the tenant {ALL_TENANTS!r} and revoke this one. To "
            "manage keys of some tenants, use the scope 'tenant_admin'."
        )
        raise ForbiddenError(message, scope=need.scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant of a caller that can't name one, its scopes there, and its key's id, if any."""

    tenant_id: str
    scopes: frozenset[Scope]
    key_id: str | None = None


async def enter(
    services: Services, authorization: str | None, scope: Scope, *, usual_tenant: str
) -> Caller:
    """Return the tenant and scopes of a caller that can't name its tenant.

    The tenant is that of the key if the key has exactly one, else `usual_tenant`.

    Args:
        services: the service.
        authorization: the `Authorization` header, `Bearer <key>`.
        scope: the required scope.
        usual_tenant: used without API keys, and for keys with several tenants; empty for none.

    Raises:
        UnauthenticatedError: the key is missing, unknown or revoked.
        ForbiddenError: the key lacks the scope, or the tenant is ambiguous.
    """
    rights = await _rights_of(services, authorization)
    _check_scope(rights, AccessNeed(scope=scope))
    if len(rights.tenants) == 1 and ALL_TENANTS not in rights.tenants:
        return Caller(next(iter(rights.tenants)), rights.scopes, rights.key_id)
    if not usual_tenant or not rights.opens(usual_tenant):
        message = "No tenant: use an API key for one tenant, or set LOREWELL_GATEWAY_TENANT."
        raise ForbiddenError(message)
    return Caller(usual_tenant, rights.scopes, rights.key_id)


async def _find(services: Services, authorization: str | None) -> KeyRow:
    kind, _, key = (authorization or "").partition(" ")
    prefix, _, rest = key.strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if kind.lower() != "bearer" or prefix != _PREFIX or not secret or len(key_id) > _MAX_ID_CHARS:
        raise UnauthenticatedError("This service requires an API key: Authorization: Bearer <key>.")
    row = await services.keys.find(services.store, key_id, lambda tx: tx.find_key(key_id))
    # An unknown key takes the same path, so that timing reveals nothing.
    known = hash_secret(secret, row.salt if row else bytes(_SALT_BYTES))
    matches = hmac.compare_digest(known, row.secret_hash if row else bytes(len(known)))
    if row is None or row.revoked_at is not None or not matches:
        raise UnauthenticatedError("This API key is unknown or revoked.")
    note = on_key.get()
    if note is not None:
        note(row.key_id)
    return row


def hash_secret(secret: str, salt: bytes) -> bytes:
    """Return the stored hash of a secret. Secrets are long and random, so one round is enough."""
    return hashlib.sha256(salt + secret.encode()).digest()


async def create_key(
    services: Services, request: KeyRequest, rights: Rights = ALL_RIGHTS
) -> CreatedKey:
    """Create a key. Its secret is returned only now, and not stored.

    Raises:
        ForbiddenError: `rights` do not cover its tenants or its scopes.
    """
    if not rights.manages(request.tenants):
        raise ForbiddenError("This API key may create keys only for its own tenants.")
    if not rights.grants(request.scopes):
        message = "This API key may give new keys only scopes that it has itself."
        raise ForbiddenError(message)
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
    return CreatedKey(
        **_without_secret(row).model_dump(), secret=f"{_PREFIX}_{row.key_id}_{secret}"
    )


async def list_keys(services: Services, rights: Rights = ALL_RIGHTS) -> KeyList:
    """Return the keys that `rights` cover, without secrets, also revoked ones, oldest first."""
    rows = await services.store.read(lambda tx: tx.list_keys())
    return KeyList(keys=tuple(_without_secret(row) for row in rows if rights.manages(row.tenants)))


async def revoke_key(services: Services, key_id: str, rights: Rights = ALL_RIGHTS) -> None:
    """Revoke a key permanently.

    Raises:
        NotFoundError: there is no such key, or `rights` do not cover it.
    """

    def work(tx: Transaction) -> None:
        row = tx.find_key(key_id)
        if row is None or not rights.manages(row.tenants):
            raise NotFoundError(f"There is no API key {key_id}.")
        tx.revoke_key(key_id, services.clock.now())

    await services.store.write(work)


def _without_secret(row: KeyRow) -> ApiKey:
    return ApiKey(
        id=row.key_id,
        name=row.name,
        tenants=row.tenants,
        scopes=row.scopes,
        created_at=stamp(row.created_at),
        revoked_at=None if row.revoked_at is None else stamp(row.revoked_at),
    )
