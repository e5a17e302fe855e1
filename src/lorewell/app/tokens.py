"""Counting tokens, and the choice of a tokenizer."""

from __future__ import annotations

from lorewell.app.services import Services
from lorewell.engine.tokens import TokenCounter, find_tokenizer, shipped_counter
from lorewell.model import TokenCountRequest, TokenCounts


async def count_tokens(
    services: Services, tenant_id: str, request: TokenCountRequest
) -> TokenCounts:
    """Return the token count of each text, by the service's tokenizer unless one is named.

    Raises:
        ValidationFailedError: the service has no such tokenizer.
    """
    chosen = await choose_counter(services, tenant_id, request.tokenizer)

    def count() -> TokenCounts:
        counts = tuple(chosen.count(text) for text in request.texts)
        return TokenCounts(tokenizer=chosen.name, counts=counts)

    return await services.computing.run(tenant_id, count)


async def choose_counter(services: Services, tenant_id: str, name: str | None) -> TokenCounter:
    """Return the counter of a tokenizer or of a model's tokenizer; None is the service's own.

    Files are those of the service's settings; the name is never a path.

    Raises:
        ValidationFailedError: the service has no such tokenizer; the fault is at `/tokenizer`.
    """
    if name is None:
        return services.counter
    known = find_tokenizer(name)
    if services.counter.name in {name, known}:
        return services.counter
    of_file = services.tokenizers.get(known or "")
    if of_file is not None:
        return of_file
    # The first use loads a vocabulary, which does not count as the request's own work.
    return await services.computing.finish(tenant_id, lambda: shipped_counter(name))
