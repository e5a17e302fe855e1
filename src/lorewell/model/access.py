"""API keys (docs/rules/native.md §13)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.entry import Distinct
from lorewell.model.records import Timestamp
from lorewell.model.text import Text, fault

Scope = Literal["read", "write", "admin", "tenant_admin", "metrics"]
# These scopes cover the whole service, so a key for single tenants can't have them.
SERVICE_SCOPES: Final[frozenset[Scope]] = frozenset({"admin", "metrics"})
ALL_TENANTS = "*"
TENANT_PATTERN = r"^[A-Za-z0-9._:-]{1,100}$"
TenantId = Annotated[Text, Field(max_length=100, pattern=TENANT_PATTERN)]


class KeyRequest(Contract):
    """A new API key.

    Attributes:
        name: a label for people.
        tenants: ids of the tenants that the key gives access to; `*` for all.
        scopes: what the key allows; `admin` and `metrics` need the tenant `*`.
    """

    name: Annotated[Text, Field(max_length=200)] = ""
    tenants: Annotated[
        tuple[TenantId | Literal["*"], ...], Field(min_length=1, max_length=100), Distinct
    ]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=5), Distinct]

    @model_validator(mode="after")
    def _check_tenants(self) -> Self:
        for scope in self.scopes:
            if scope in SERVICE_SCOPES and ALL_TENANTS not in self.tenants:
                raise fault("/tenants", f"must hold {ALL_TENANTS!r} for the scope {scope!r}")
        return self


class ApiKey(Contract):
    """An API key without its secret, which can't be read again.

    Attributes:
        id: the key's id.
        name: a label for people.
        tenants: ids of the tenants that the key gives access to; `*` for all.
        scopes: what the key allows.
        created_at: when the key was created.
        revoked_at: when the key was revoked; null if it was not.
    """

    id: str
    name: str
    tenants: tuple[str, ...]
    scopes: tuple[Scope, ...]
    created_at: Timestamp
    revoked_at: Timestamp | None


class CreatedKey(ApiKey):
    """A new API key with its secret.

    Attributes:
        secret: the Bearer token; it is shown only once.
    """

    secret: str


class KeyList(Contract):
    """All API keys.

    Attributes:
        keys: oldest first, revoked ones included.
    """

    keys: tuple[ApiKey, ...]


class TenantList(Contract):
    """All tenants that have a book.

    Attributes:
        tenants: ids in alphabetical order.
    """

    tenants: tuple[str, ...]
