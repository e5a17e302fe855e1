"""Setup and requests that the blocking and the async client share."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from lorewell.client.attempts import Attempts, Retry
from lorewell.client.calls import DEFAULT_URL, Answer, ClientCall, Session, header_value
from lorewell.outbound import parse_base_url

DEFAULT_TIMEOUT_S = 30.0
STREAM_TIMEOUT_S = 45.0  # three times the service's longest silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The address of the service, and the settings of requests to it.

    Attributes:
        url: the base URL, without user and password.
        address: the same as text, for messages.
        headers: sent with every request.
        trust_env: whether proxies of the environment apply.
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
        """Return the connection settings for a service; nothing is connected yet.

        Raises:
            ValidationFailedError: the address or the key is invalid.
        """
        patience = retry or Retry()
        base = parse_base_url(base_url, parameter="base_url", example=DEFAULT_URL)
        headers = {"Accept": "application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {header_value('api_key', api_key)}"
        elif base.basic is not None:
            headers["Authorization"] = base.basic
        return cls(
            url=base.url,
            address=str(base.url).rstrip("/"),
            headers=headers,
            trust_env=base.trust_env,
            session=Session(tenant_id=tenant_id, makes_keys=patience.attempts > 1),
            retry=patience,
        )

    def attempts(self, call: ClientCall[Answer]) -> Attempts[Answer]:
        """Return the attempts for a call, none made yet."""
        return Attempts(call, self.retry, self.address)


def streaming(client: httpx.Client | httpx.AsyncClient, call: ClientCall[None]) -> httpx.Request:
    """Return the HTTP request of a call whose answer is an endless stream."""
    request = request_of(client, call)
    request.headers["Accept"] = "text/event-stream"
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": STREAM_TIMEOUT_S}
    return request


def request_of(client: httpx.Client | httpx.AsyncClient, call: ClientCall[Answer]) -> httpx.Request:
    """Return the HTTP request of a call."""
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
