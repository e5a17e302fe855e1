"""Checks of hosts and origins: any web page can reach an open loopback port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lorewell.errors import (
    Fault,
    ForbiddenError,
    LorewellError,
    MisdirectedRequestError,
    ValidationFailedError,
)
from lorewell.http.parameters import QUERY_PARAMETERS
from lorewell.http.problems import answer_error
from lorewell.outbound import is_loopback

ANY = "*"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ONCE = ("authorization", "content-type", "idempotency-key")
# RFC 3986 §3.2.2, without a user, a zone, an escape, or anything after the bracket but a port.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f]*:[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?"
)
_SCHEMES = ("http://", "https://")


class Guard:
    """ASGI middleware that refuses foreign hosts, changes by foreign origins, and invalid text.

    A page that points a name of its own at our address (DNS rebinding) sends that name as the
    host. A form on any page sends its origin.
    """

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: Iterable[str], cors_origins: Iterable[str]
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        self._origins = open_origins(cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        try:
            self._check(scope, headers, origins)
        except LorewellError as error:
            # Also for a socket before it is open: its client gets a status and a body.
            await answer_error(error, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers, origins: Sequence[str]) -> None:
        _check_headers(scope, headers)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):
            message = "This service does not serve this host; see LOREWELL_ALLOWED_HOSTS."
            raise MisdirectedRequestError(message)
        is_safe = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
        host = hosts[0].lower()
        is_known = len(origins) == 1 and self._is_known(origins[0], host)
        # Several origins are always refused: the CORS middleware would check only the first.
        if len(origins) > 1 or (origins and not is_safe and not is_known):
            message = "Pages of this origin may not use the service; see LOREWELL_CORS_ORIGINS."
            raise ForbiddenError(message)
        _check_query(scope["query_string"])

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        if name is None:
            return False
        return is_loopback(name) or not {host, name, ANY}.isdisjoint(self._hosts)

    def _is_known(self, origin: str, host: str) -> bool:
        own = [scheme + host for scheme in _SCHEMES]
        return origin.lower() in own or origin.lower() in self._origins


def open_origins(cors_origins: Iterable[str]) -> frozenset[str]:
    """Return the origins of a setting as browsers write them; no origin stands for any.

    >>> open_origins(["https://App.example/", "*"])
    frozenset({'https://app.example'})
    """
    return frozenset(origin.lower().rstrip("/") for origin in cors_origins) - {ANY}


def host_name(host: str) -> str | None:
    """Return a host in lower case without its port; None if it is neither a name nor an address.

    >>> host_name("[::1]:8876"), host_name("localhost:80"), host_name("localhost")
    ('::1', 'localhost', 'localhost')
    >>> host_name("[::1].example"), host_name("me@localhost"), host_name("localhost:80:80")
    (None, None, None)
    """
    found = _HOST.fullmatch(host)
    return found and (found["address"] or found["name"])


def _check_headers(scope: Scope, headers: Headers) -> None:
    for name, value in scope["headers"]:
        if b"\x00" in value:
            raise _fault(name.decode("latin-1"), "text must not hold U+0000")
    for header in _ONCE:
        if len(headers.getlist(header)) > 1:
            raise _fault(header, "must not be repeated")


def _check_query(query: bytes) -> None:
    """Raise an error for text that no database stores, and for a repeated parameter.

    A repeated one is refused since a proxy in front may have checked the other value.
    """
    seen = set()
    for pair in query.split(b"&"):
        name, _, value = (_decoded(part) for part in pair.partition(b"="))
        shown = name.decode(errors="replace")
        if b"\x00" in name + value:
            raise _fault(shown, "text must not hold U+0000")
        try:
            (name + value).decode()
        except UnicodeDecodeError as error:
            raise _fault(shown, "text must be UTF-8") from error
        if shown in seen and shown in QUERY_PARAMETERS:
            raise _fault(shown, "must not be repeated")
        seen.add(shown)


def _decoded(part: bytes) -> bytes:
    return unquote_to_bytes(part) if b"%" in part else part


def _fault(parameter: str, detail: str) -> ValidationFailedError:
    fault = Fault("", detail, parameter=parameter)
    return ValidationFailedError.at(fault)
