"""The client for turns of `lorewell.turn`."""

from __future__ import annotations

import httpx

from lorewell.client.asynchronous import AsyncLorewellClient
from lorewell.client.attempts import Retry
from lorewell.client.calls import DEFAULT_URL
from lorewell.model.worldbook import WorldbookConfig


def connect(
    config: WorldbookConfig, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncLorewellClient:
    """Return a client for the service, tenant and key of a configuration.

    It does not retry: a turn has its own retries.

    Raises:
        ValidationFailedError: the address or the key is invalid.
    """
    return AsyncLorewellClient(
        config.service_url or DEFAULT_URL,
        tenant_id=config.tenant_id,
        api_key=config.api_key,
        timeout_s=config.timeout_ms / 1000,
        retry=Retry(attempts=1),
        transport=transport,
    )
