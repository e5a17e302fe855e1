"""A call of a route as a value: the request, the parser of its answer, and whether it may repeat.

This module sends nothing, so the blocking and the async client share all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, TypedDict, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel

from lorewell.errors import Fault, ValidationFailedError
from lorewell.model.text import text_flaw

Answer = TypeVar("Answer")

DEFAULT_URL = "http://127.0.0.1:8876"
IDEMPOTENCY_KEY = "Idempotency-Key"
REQUEST_ID = "X-Request-ID"
MAX_KEY_CHARS = 200
_JSON = {"Content-Type": "application/json"}

QueryValue = str | int | bool | None
FilePart = tuple[str, tuple[str, bytes]]


class CallOptions(TypedDict, total=False):
    """The keywords of every method.

    Attributes:
        request_id: sent as `X-Request-ID`; the service logs it and returns it.
        timeout_s: seconds for each step of the exchange, instead of the client's.
    """

    request_id: str | None
    timeout_s: float | None


class TenantOptions(CallOptions, total=False):
    """The keywords of methods for one tenant's books.

    Attributes:
        tenant_id: the tenant, instead of the client's.
    """

    tenant_id: str | None


class KeyedOptions(TenantOptions, total=False):
    """The keywords of methods that store something once.

    Attributes:
        idempotency_key: 1 to 200 printable ASCII characters. The same key with the same content
            returns the first result again. If not given, the client makes one for its retries.
    """

    idempotency_key: str | None


class Repeatability(Enum):
    """The effect of sending a request twice."""

    READ = auto()  # none: it only reads or computes
    KEYED = auto()  # none, as long as it carries an idempotency key
    WRITE = auto()  # possible: it is sent once
    PROBE = auto()  # none, but the first answer is the result


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteArguments:
    """The part of a request that is specific to a route.

    Attributes:
        path: below the service's address, with its segments quoted.
        query: parameters besides the tenant; a parameter that is None is left out.
        has_tenant: whether the route is for one tenant's books.
    """

    method: str
    path: str
    kind: Repeatability
    query: Mapping[str, QueryValue] = field(default_factory=dict)
    body: BaseModel | None = None
    files: Sequence[FilePart] = ()
    has_tenant: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCall(Generic[Answer]):
    """A complete request; it can be sent any number of times.

    Attributes:
        read: parses the body of a successful answer; raises ValueError if it is invalid.
        may_repeat: whether it may be sent again although it may have arrived before.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes | None
    files: Sequence[FilePart]
    timeout_s: float | None
    read: Callable[[bytes], Answer]
    may_repeat: bool

    @property
    def idempotency_key(self) -> str | None:
        """The idempotency key, if the call has one."""
        return self.headers.get(IDEMPOTENCY_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The values that all calls of one client share.

    Attributes:
        tenant_id: the tenant of calls that do not name one.
        makes_keys: whether a KEYED call without an idempotency key gets one, so that it may repeat.
    """

    tenant_id: str | None = None
    makes_keys: bool = True

    def call(
        self, ask: RouteArguments, read: Callable[[bytes], Answer], options: CallOptions
    ) -> ClientCall[Answer]:
        """Return the complete request of a route.

        Raises:
            ValidationFailedError: no tenant is given, or a value can't be sent.
            TypeError: the route has no such option.
        """
        _check_names(ask, options)
        given = cast("KeyedOptions", options)  # _check_names refused the others
        query = dict(ask.query)
        if ask.has_tenant:
            tenant_id = given.get("tenant_id")
            query["tenant_id"] = self._tenant() if tenant_id is None else tenant_id
        headers = {} if ask.body is None else dict(_JSON)
        key = given.get("idempotency_key")
        if ask.kind is Repeatability.KEYED and key is None and self.makes_keys:
            key = uuid4().hex
        for name, value in {IDEMPOTENCY_KEY: key, REQUEST_ID: given.get("request_id")}.items():
            if value is not None:
                headers[name] = header_value(name, value)
        return ClientCall(
            method=ask.method,
            path=ask.path,
            query={
                name: _query_text(name, value) for name, value in query.items() if value is not None
            },
            headers=headers,
            # Only fields that were set: an older service would refuse the default of a newer field.
            content=None
            if ask.body is None
            else ask.body.model_dump_json(exclude_unset=True, by_alias=True).encode(),
            files=ask.files,
            timeout_s=given.get("timeout_s"),
            read=read,
            may_repeat=ask.kind is Repeatability.READ
            or (ask.kind is Repeatability.KEYED and key is not None),
        )

    def _tenant(self) -> str:
        if self.tenant_id is None:
            raise bad_parameter("tenant_id", "must be given, to the call or to the client")
        return self.tenant_id


def segment(text: str) -> str:
    """Return an id as one segment of a path, so that no id leads to another route.

    Raises:
        ValidationFailedError: the id is empty, holds a slash, or can't be sent.

    >>> segment(".. 灯")
    '%2E%2E%20%E7%81%AF'
    """
    flaw = text_flaw(text) if text else "must not be empty"
    if flaw is None and "/" in text:  # servers decode it before they match a route
        flaw = "must not hold a slash"
    if flaw:
        raise bad_parameter("id", flaw)
    return quote(text, safe="").replace(".", "%2E")  # `..` would mean the parent path


def header_value(name: str, value: str) -> str:
    """Return the value if a header can hold it.

    Raises:
        ValidationFailedError: it can't. The message does not quote the value: it may be a secret.
    """
    if not (1 <= len(value) <= MAX_KEY_CHARS and value.isascii() and value.isprintable()):
        raise bad_parameter(name, f"must be 1 to {MAX_KEY_CHARS} printable ASCII characters")
    return value


def bad_parameter(name: str, detail: str) -> ValidationFailedError:
    """Return the error for an invalid parameter."""
    fault = Fault("", detail, parameter=name)
    return ValidationFailedError.at(fault)


def _check_names(ask: RouteArguments, options: CallOptions) -> None:
    known = {"request_id", "timeout_s"}
    if ask.has_tenant:
        known.add("tenant_id")
    if ask.kind is Repeatability.KEYED:
        known.add("idempotency_key")
    for name in options:
        if name not in known:
            message = f"{ask.method} {ask.path} takes no argument {name!r}"
            raise TypeError(message)


def _query_text(name: str, value: str | int) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    flaw = text_flaw(str(value))
    if flaw:
        raise bad_parameter(name, flaw)
    return str(value)


def page_of(limit: int | None, cursor: str | None) -> dict[str, QueryValue]:
    """Return the query parameters for one page of a list."""
    return {"limit": limit, "cursor": cursor}
