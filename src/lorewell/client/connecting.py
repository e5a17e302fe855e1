"""What the blocking and the async client have in common before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from lorewell.client.attempts import Attempts, Retry
from lorewell.client.calls import DEFAULT_URL, Answer, ClientCall, Session, header_value
from lorewell.outbound import parse_base_url

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
