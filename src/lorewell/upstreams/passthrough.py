"""A chat completions server behind the gateway: requests and answers pass byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from lorewell.app.ports import Header, UpstreamAnswer, UpstreamCall
from lorewell.errors import UpstreamTimeoutError, UpstreamUnavailableError
from lorewell.outbound import parse_base_url
from lorewell.waiting import begin_to_wait

_CONNECT_S = 10.0
_KEPT_CONNECTIONS = 100
_URL_SETTING = "LOREWELL_GATEWAY_UPSTREAM_URL"
_KEY_SETTING = "LOREWELL_GATEWAY_UPSTREAM_API_KEY"
_EXAMPLE_URL = "http://127.0.0.1:8080/v1"


class Passthrough:
    """An `Upstream` over HTTP. No error, log or repr holds its key or password."""

    def __init__(self, url: str, *, api_key: str, timeout_s: float) -> None:
        """Create an upstream without connecting.

        Args:
            url: the base URL, without `/chat/completions`; it may hold a user and a password.
            api_key: sent as a bearer token, in place of the URL's password; empty for none.
            timeout_s: seconds to wait for the first byte of an answer, and for each next piece.

        Raises:
            ValidationFailedError: the URL or the key is invalid.
        """
        self._base = parse_base_url(url, parameter=_URL_SETTING, example=_EXAMPLE_URL)
        self._own_authorization = self._base.authorization(api_key, parameter=_KEY_SETTING)
        self._timeout_s = timeout_s
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Send a call and yield its answer as soon as it begins."""
        headers = list(call.headers)
        authorization = call.authorization
        if authorization is None:
            authorization = self._own_authorization
        if authorization is not None:
            headers.append((b"authorization", authorization.encode()))
        url = self._base.join(call.path)
        content = call.body or None
        request = self._client().build_request(call.method, url, headers=headers, content=content)
        for name in _HTTPX_DEFAULTS:
            if all(name != given.decode("latin-1").lower() for given, _ in headers):
                request.headers.pop(name, None)
        with self._translated_errors():
            begin_to_wait()
            response = await self._client().send(request, stream=True)
        try:
            _check_status(response.status_code)
            yield UpstreamAnswer(
                status=response.status_code,
                headers=_lower(response.headers.raw),
                pieces=self._pieces(response),
            )
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        with self._translated_errors():
            async for piece in response.aiter_raw():
                yield piece

    def _translated_errors(self) -> _TranslatedErrors:
        return _TranslatedErrors(self._timeout_s)

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for ended in [each for each in self._clients if each.is_closed()]:
                del self._clients[ended]
            client = httpx.AsyncClient(
                timeout=httpx.Timeout(
                    self._timeout_s, connect=min(_CONNECT_S, self._timeout_s), pool=None
                ),
                # A stream holds its connection, so with a bound the next call would wait for it.
                trust_env=self._base.trust_env,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS
                ),
                # One caller's cookies must not be sent with another one's request.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            )
            self._clients[loop] = client
        return client


def _check_status(status: int) -> None:
    """Raise an error for a status that means nothing to the gateway's client."""
    if status not in _FINAL or status in _REDIRECTS:
        raise UpstreamUnavailableError(f"The upstream answered with status {status}.")


_FINAL, _REDIRECTS = range(200, 600), range(300, 400)
_HTTPX_DEFAULTS = ("accept", "accept-encoding", "user-agent")


class _TranslatedErrors:
    """Turns httpx's errors into ours, which quote neither the URL nor a text."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise UpstreamUnavailableError("The upstream is unreachable.") from None
        if isinstance(error, httpx.TimeoutException):
            message = f"The upstream sent nothing for {self._timeout_s:g} s."
            raise UpstreamTimeoutError(message) from None
        if isinstance(error, httpx.RequestError):
            raise UpstreamUnavailableError("The upstream closed the connection early.") from None


def _lower(headers: list[tuple[bytes, bytes]]) -> list[Header]:
    return [(name.lower(), value) for name, value in headers]
