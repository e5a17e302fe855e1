"""Assembling the prompt of a turn, without reading or storing books."""

from __future__ import annotations

from lorewell.app.services import Services
from lorewell.app.tokens import choose_counter
from lorewell.host import assemble_request
from lorewell.model import AssembleRequest, AssembleResponse
from lorewell.model.faults import faults_below


async def assemble_prompt(
    services: Services, tenant_id: str, request: AssembleRequest
) -> AssembleResponse:
    """Return the prompt, counted by the service's tokenizer unless the request names one.

    Raises:
        ValidationFailedError: the tokenizer is neither bundled nor the service's own.
        PlacementFailedError: the draft lacks the place of a block.
        ContextOverflowError: the prompt exceeds the context window.
    """
    scene = request.scene
    if scene is None or scene.tokenizer is None:
        counter = await choose_counter(services, tenant_id, request.tokenizer)
    else:
        with faults_below("/scene"):
            counter = await choose_counter(services, tenant_id, scene.tokenizer)
    async with services.computing.turn(tenant_id) as turn:
        return await turn.run(lambda: assemble_request(request, counter=counter, steps=turn.steps))
