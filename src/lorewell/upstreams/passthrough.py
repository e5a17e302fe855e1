"""A server of chat completions, asked byte for byte: what it answers is left as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from lorewell.app.gateway.options import Header, UpstreamAnswer, UpstreamCall
from lorewell.errors import UpstreamTimeoutError, UpstreamUnavailableError
from lorewell.outbound import parse_base_url

_CONNECT_S = 10.0
_KEPT_CONNECTIONS = 100
_URL_SETTING = "LOREWELL_GATEWAY_UPSTREAM_URL"
_KEY_SETTING = "LOREWELL_GATEWAY_UPSTREAM_API_KEY"
_EXAMPLE_URL = "http://127.0.0.1:8080/v1"


class Passthrough:
    """An `Upstream` over HTTP. Its key and password are in no error, no log and no repr."""

    def __init__(self, url: str, *, api_key: str, timeout_s: float) -> None:
        """Connect to nothing yet.

        Args:
            url: the base URL, up to what comes before `/chat/completions`; it may hold a user and
                password.
            api_key: sent as a bearer token, in place of what the URL holds; empty for none.
            timeout_s: how long to wait for the first byte of an answer, and between two of them.

        Raises:
            ValidationFailedError: the URL can't be read.
        """
        self._base = parse_base_url(url, parameter=_URL_SETTING, example=_EXAMPLE_URL)
        self._own_authorization = self._base.authorization(api_key, parameter=_KEY_SETTING)
        self._timeout_s = timeout_s
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Send a call and give its answer as soon as that begins."""
        headers = list(call.headers)
        authorization = call.authorization
        if authorization is None:
            authorization = self._own_authorization
        if authorization is not None:
            headers.append((b"authorization", authorization.encode()))
        url = self._base.join(call.path)
        content = call.body or None
        request = self._client().build_request(call.method, url, headers=headers, content=content)
        for name in _ADDED:  # by httpx, of itself
            if all(name != given.decode("latin-1").lower() for given, _ in headers):
                request.headers.pop(name, None)
        with self._told():
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
        """Let go of the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        with self._told():
            async for piece in response.aiter_raw():
                yield piece

    def _told(self) -> _Told:
        return _Told(self._timeout_s)

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
                # A stream holds its connection, so a bound would make the next one wait for it.
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
    """Raise an error for a status that says nothing to a client of this service."""
    if status not in _FINAL or status in _REDIRECTS:
        raise UpstreamUnavailableError(f"The upstream answered with the status {status}.")


_FINAL, _REDIRECTS = range(200, 600), range(300, 400)
_ADDED = ("accept", "accept-encoding", "user-agent")


class _Told:
    """Turns what httpx raises into our errors, with nothing of the URL or of a text in them."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise UpstreamUnavailableError("The upstream can't be reached.") from None
        if isinstance(error, httpx.TimeoutException):
            message = f"The upstream sent nothing for {self._timeout_s:g} s."
            raise UpstreamTimeoutError(message) from None
        if isinstance(error, httpx.RequestError):
            raise UpstreamUnavailableError("The upstream broke off.") from None


def _lower(headers: list[tuple[bytes, bytes]]) -> list[Header]:
    return [(name.lower(), value) for name, value in headers]
