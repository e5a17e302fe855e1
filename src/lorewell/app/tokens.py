"""Counting tokens, and the choice of a tokenizer."""

from __future__ import annotations

from lorewell.app.services import Services
from lorewell.engine.tokens import BUNDLED, TokenCounter, counter
from lorewell.errors import Fault, ValidationFailedError
from lorewell.model import TokenCountRequest, TokenCounts
from lorewell.model.text import pointer


async def count_tokens(
    services: Services, tenant_id: str, request: TokenCountRequest
) -> TokenCounts:
    """Return the token count of each text, by the service's tokenizer unless one is named.

    Raises:
        ValidationFailedError: the tokenizer is neither bundled nor the service's own.
    """
    chosen = await choose_counter(services, tenant_id, request.tokenizer)

    def count() -> TokenCounts:
        counts = tuple(chosen.count(text) for text in request.texts)
        return TokenCounts(tokenizer=chosen.name, counts=counts)

    return await services.computing.run(tenant_id, count)


async def choose_counter(services: Services, tenant_id: str, name: str | None) -> TokenCounter:
    """Return the service's counter for None or its own name, else that of a bundled encoding.

    Raises:
        ValidationFailedError: there is no such encoding; the fault is at `/tokenizer`.
    """
    if name is None or name == services.counter.name:
        return services.counter
    if name not in BUNDLED:  # `counter` would take any other name for a file's
        fault = Fault(pointer("tokenizer"), f"must be one of {', '.join(BUNDLED)}")
        raise ValidationFailedError.at(fault)
    # The first use loads a vocabulary, which does not count as the request's own work.
    return await services.computing.finish(tenant_id, lambda: counter(name))
