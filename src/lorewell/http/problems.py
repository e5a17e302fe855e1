"""Errors as RFC 9457 problem bodies. Only this module maps errors to statuses (§7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate, islice
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from lorewell.errors import (
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    LorewellError,
    MalformedJsonError,
    MalformedMultipartError,
    MethodNotAllowedError,
    MisdirectedRequestError,
    NotFoundError,
    RequestTimeoutError,
    StorageUnavailableError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    UpstreamTimeoutError,
    UpstreamUnavailableError,
    describe,
    shorten,
)
from lorewell.model.base import Contract

MEDIA_TYPE = "application/problem+json"
INTERNAL_ERROR = 500

# The nearest base class counts.
STATUSES: Mapping[type[LorewellError], int] = {
    LorewellError: INTERNAL_ERROR,
    InvalidInputError: 422,
    MalformedJsonError: 400,
    MalformedMultipartError: 400,
    UnsupportedMediaTypeError: 415,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    ConflictError: 409,
    LimitError: 413,
    MisdirectedRequestError: 421,
    UnavailableError: 503,
    RequestTimeoutError: 408,
    UpstreamUnavailableError: 502,
    UpstreamTimeoutError: 504,
}
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    503: {"Retry-After": "1"},
}
_UNAVAILABLE = "The database is unreachable or can't serve requests now."
_PARTS: Mapping[str, str] = {
    "not_a_database": "The database file is not a database.",
    "migrations": "The database schema is older than this program.",
    "newer_schema": "The database schema is newer than this program.",
    "writes": "The database accepts no writes now.",
}
_FAULTS_IN_DETAIL = 3
# No problem is larger than 64 KiB, even if it quotes the request in many places.
_MAX_DETAIL_CHARS = 2_000
_MAX_ITEMS_BYTES = 36 * 1024
_MAX_DETAILS_BYTES = 12 * 1024
_MAX_FACT_CHARS = 500
_MAX_FACTS = 100
_BAD_REQUEST, _UNPROCESSABLE = 400, 422

GATEWAY = "/gateway/"
_INVALID, _SERVER = "invalid_request_error", "server_error"
_KINDS: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
}


class ProblemItem(Contract):
    """A fault of the request, at a place in the body or in a parameter or header.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the body.
        parameter: name of the path parameter, query parameter or header.
        detail: what is wrong there, or what must hold.
    """

    pointer: str | None = None
    parameter: str | None = None
    detail: str


class Problem(Contract):
    """An error (RFC 9457). Codes are stable, texts are not.

    Attributes:
        type: URI of the kind of error.
        title: the kind of error, for people.
        status: the HTTP status.
        detail: this error, for people.
        code: the stable, machine-readable name of the kind of error.
        details: facts about this error; their names depend on the code.
        request_id: the request's id, under which the service logs it.
        errors: the faults of the request; empty unless it is at fault.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    details: dict[str, Any]
    request_id: str
    errors: tuple[ProblemItem, ...]


def status_of(error: LorewellError | type[LorewellError]) -> int:
    """Return the HTTP status of an error."""
    kind = error if isinstance(error, type) else type(error)
    return next(STATUSES[base] for base in kind.__mro__ if base in STATUSES)


def problem_of(error: LorewellError, request_id: str) -> dict[str, Any]:
    """Return the problem body of an error. It reveals nothing of internal errors."""
    status = status_of(error)
    detail, details = _detail(error), error.details
    if status == INTERNAL_ERROR:
        detail = "Internal error; the log holds it under this request id."
        details = {}
    elif isinstance(error, StorageUnavailableError):  # its message may name a file or a host
        detail = _PARTS.get(str(details.get("part")), _UNAVAILABLE)
        details = {name: fact for name, fact in details.items() if name == "part"}
    return {
        "type": f"urn:lorewell:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": status,
        "detail": shorten(detail, _MAX_DETAIL_CHARS),
        "code": error.code,
        "details": _bounded_details(details),
        "request_id": request_id,
        "errors": _items(error),
    }


def problem_response(
    error: LorewellError, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as a problem response."""
    status = status_of(error)
    return Response(
        _encode(problem_of(error, request_id)),
        status,
        {**_HEADERS.get(status, {}), **(headers or {})},
        media_type=MEDIA_TYPE,
    )


def answer_error(
    error: LorewellError, scope: Scope, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as a response, in the form that the clients of the route expect."""
    if scope["path"].startswith(GATEWAY):
        return completion_error(error, scope["state"]["request_id"], headers)
    return problem_response(error, scope["state"]["request_id"], headers)


class CompletionErrorBody(Contract):
    """An error in the form of OpenAI's API.

    Attributes:
        message: this error, for people.
        type: the kind of error, in OpenAI's terms.
        code: the code of the problem.
        param: the member of the request at fault.
    """

    message: str
    type: str
    code: str
    param: str | None


class CompletionError(Contract):
    """An error of the gateway itself.

    Attributes:
        error: the error.
    """

    error: CompletionErrorBody


def completion_status_of(error: LorewellError | type[LorewellError]) -> int:
    """Return the HTTP status of an error of the gateway: 400 instead of 422."""
    status = status_of(error)
    return _BAD_REQUEST if status == _UNPROCESSABLE else status


def completion_error(
    error: LorewellError, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as a response in OpenAI's form."""
    status = completion_status_of(error)
    problem = problem_of(error, request_id)
    first = next(iter(error.faults), None)
    body = CompletionError(
        error=CompletionErrorBody(
            message=problem["detail"],
            type=_KINDS.get(status, _SERVER if status >= INTERNAL_ERROR else _INVALID),
            code=error.code,
            param=None if first is None else first.parameter or first.pointer or None,
        )
    )
    return Response(
        _encode(body.model_dump()),
        status,
        {**_HEADERS.get(status, {}), **(headers or {})},
        media_type="application/json",
    )


def _detail(error: LorewellError) -> str:
    more = error.fault_count - _FAULTS_IN_DETAIL
    if more <= 0:
        return str(error)
    return f"{describe(error.faults[:_FAULTS_IN_DETAIL])}; and {more:,} more"


def _items(error: LorewellError) -> list[dict[str, str]]:
    """Return the first faults that fit; a last item counts the others."""
    listed = [_item(fault) for fault in error.faults]
    sizes = accumulate(len(_encode(item)) for item in listed)
    fitting = sum(1 for size in sizes if size <= _MAX_ITEMS_BYTES)
    if fitting == len(listed):
        return listed
    return [
        *listed[:fitting],
        {"pointer": "", "detail": f"and {error.fault_count - fitting:,} more"},
    ]


def _item(fault: Fault) -> dict[str, str]:
    if fault.parameter is not None:
        return {"parameter": fault.parameter, "detail": fault.detail}
    return {"pointer": fault.pointer, "detail": fault.detail}


def _bounded_details(details: Mapping[str, object]) -> dict[str, Any]:
    """Return details with long texts and lists shortened, or none if they are still too large.

    Details may quote the request, and list many conflicts.
    """
    shortened = {shorten(name, _MAX_FACT_CHARS): _cut(value) for name, value in details.items()}
    return shortened if len(_encode(shortened)) <= _MAX_DETAILS_BYTES else {}


def _cut(value: object) -> object:
    match value:
        case str():
            return shorten(value, _MAX_FACT_CHARS)
        case Mapping():
            return {name: _cut(member) for name, member in islice(value.items(), _MAX_FACTS)}
        case list() | tuple():
            return [_cut(item) for item in value[:_MAX_FACTS]]
        case _:
            return value


def _encode(value: object) -> bytes:
    # Python's encoder: details may hold integers over 64 bits and lone surrogates.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")
