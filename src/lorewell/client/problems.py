"""Errors of the service, rebuilt from its answers: the same class, found by the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import httpx

from lorewell.client.calls import REQUEST_ID
from lorewell.errors import (
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    LorewellError,
    MethodNotAllowedError,
    MisdirectedRequestError,
    NotFoundError,
    RequestTimeoutError,
    ServiceUnreachableError,
    UnauthenticatedError,
    UnavailableError,
)
from lorewell.model.parse import parse_json

NO_PROBLEM = "no_problem_body"


def _with_subclasses(kind: type[LorewellError]) -> Iterator[type[LorewellError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


CLASSES: Mapping[str, type[LorewellError]] = {
    kind.code: kind for kind in _with_subclasses(LorewellError) if "code" in vars(kind)
}
# For codes of a newer service, and for answers of a proxy in between.
_BASES: Mapping[int, type[LorewellError]] = {
    400: InvalidInputError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    408: RequestTimeoutError,
    409: ConflictError,
    413: LimitError,
    415: InvalidInputError,
    421: MisdirectedRequestError,
    422: InvalidInputError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def rebuild(response: httpx.Response) -> LorewellError:
    """Return the error in an error response.

    An unknown code gives the base class of the status, with that code. An answer without a problem
    body gives the base class too; `details` hold the reason `no_problem_body` and the status.
    """
    problem = _problem(response)
    code, detail = problem.get("code"), problem.get("detail")
    request_id = problem.get("request_id") or response.headers.get(REQUEST_ID)
    error = _make_error(
        str(code) if code else None,
        response.status_code,
        str(detail or f"The service answered with status {response.status_code}."),
        faults=_faults(problem.get("errors")),
    )
    if not code:
        error.details.update(reason=NO_PROBLEM, status=response.status_code)
    details = problem.get("details")
    if isinstance(details, dict):
        error.details.update(details)
    return with_request_id(error, request_id)


def with_request_id(error: LorewellError, request_id: object) -> LorewellError:
    """Return the error with the id of its request."""
    if isinstance(request_id, str):
        error.request_id = request_id
    return error


def unreachable(message: str, details: Mapping[str, object]) -> LorewellError:
    """Return the error for a request that got no answer."""
    error = ServiceUnreachableError(message)
    error.details.update(details)
    return error


def _make_error(
    code: str | None, status: int, message: str, *, faults: tuple[Fault, ...]
) -> LorewellError:
    # Base classes have the code `internal_error` too; the status is more specific there.
    known = None if code in (None, LorewellError.code) else CLASSES.get(code or "")
    error = (known or _BASES.get(status, LorewellError))(message, faults=faults)
    if code not in (None, error.code):
        vars(error)["code"] = code  # on the instance: no class has this code
    return error


def _problem(response: httpx.Response) -> Mapping[str, object]:
    try:
        document = parse_json(response.content)
    except LorewellError:
        return {}
    return document if isinstance(document, dict) else {}


def _faults(items: object) -> tuple[Fault, ...]:
    if not isinstance(items, list):
        return ()
    return tuple(_fault(item) for item in items if isinstance(item, dict))


def _fault(item: Mapping[str, object]) -> Fault:
    parameter = item.get("parameter")
    return Fault(
        str(item.get("pointer") or ""),
        str(item.get("detail") or ""),
        parameter=parameter if isinstance(parameter, str) else None,
    )
