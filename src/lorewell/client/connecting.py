"""What the blocking and the async client have in common before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

import httpx

from lorewell.client.attempts import Attempts, Retry
from lorewell.client.calls import Answer, ClientCall, Session, bad_parameter, header_value

DEFAULT_TIMEOUT_S = 30.0
STREAM_TIMEOUT_S = 45.0  # three times as long as the service is ever quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where the service is and how it is asked.

    Attributes:
        url: the address that paths are put below.
        address: the same for messages, without a user's name and password.
        headers: sent with every request.
        trust_env: whether proxies of the environment are used.
    """

    url: httpx.URL
    address: str
    headers: dict[str, str]
    trust_env: bool
    session: Session
    retry: Retry

    @classmethod
    def to(
        cls, base_url: str, *, tenant_id: str | None, api_key: str | None, retry: Retry | None
    ) -> Connection:
        """Return how to ask a service.

        Raises:
            ValidationFailedError: the address or the key can't be used.
        """
        patience = retry or Retry()
        url = _parse_url(base_url)
        bearer = {}
        if api_key is not None:
            bearer["Authorization"] = f"Bearer {header_value('api_key', api_key)}"
        return cls(
            url=url,
            address=str(url.copy_with(username=None, password=None)).rstrip("/"),
            headers={"Accept": "application/json", **bearer},
            trust_env=not _is_loopback(url.host),  # no proxy can reach what is on this machine
            session=Session(tenant_id=tenant_id, makes_keys=patience.attempts > 1),
            retry=patience,
        )

    def attempts(self, call: ClientCall[Answer]) -> Attempts[Answer]:
        """Return the attempts at a call, none of them made yet."""
        return Attempts(call, self.retry, self.address)


def streaming(client: httpx.Client | httpx.AsyncClient, call: ClientCall[None]) -> httpx.Request:
    """Return what is sent for a call whose answer is a stream without an end."""
    request = request_of(client, call)
    request.headers["Accept"] = "text/event-stream"
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": STREAM_TIMEOUT_S}
    return request


def request_of(client: httpx.Client | httpx.AsyncClient, call: ClientCall[Answer]) -> httpx.Request:
    """Return what is sent for a call."""
    timeout = httpx.USE_CLIENT_DEFAULT if call.timeout_s is None else httpx.Timeout(call.timeout_s)
    return client.build_request(
        call.method,
        call.path,
        params=dict(call.query),
        headers=dict(call.headers),
        content=call.content,
        files=list(call.files) or None,
        timeout=timeout,
    )


def _parse_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        # Outside of the handler, and without the text: it may hold a password.
        raise bad_parameter("base_url", "must be like http://127.0.0.1:8876")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
