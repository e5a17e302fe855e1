"""Assembling the prompt of a turn; nothing is looked up or stored."""

from __future__ import annotations

from lorewell.app.services import Services
from lorewell.app.tokens import choose_counter
from lorewell.host import assemble_request
from lorewell.model import AssembleRequest, AssembleResponse


async def assemble_prompt(
    services: Services, tenant_id: str, request: AssembleRequest
) -> AssembleResponse:
    """Return the prompt, counted with the service's own tokenizer unless one is named.

    Raises:
        ValidationFailedError: the tokenizer is neither bundled nor the service's own.
        PlacementFailedError: a block wants a place that the draft does not have.
        ContextOverflowError: the prompt needs more tokens than the window has.
    """
    counter = await choose_counter(services, tenant_id, request.tokenizer)
    async with services.computing.turn(tenant_id) as turn:
        return await turn.run(lambda: assemble_request(request, counter=counter, steps=turn.steps))
