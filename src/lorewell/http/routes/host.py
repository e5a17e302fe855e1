"""Putting selected lore into the messages of a prompt."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.assembly import assemble_prompt as assemble
from lorewell.errors import ContextOverflowError, PlacementFailedError
from lorewell.http.calls import OK, Reading, answer_written
from lorewell.http.examples import ASSEMBLE
from lorewell.http.openapi import json_body, told
from lorewell.model import AssembleRequest, AssembleResponse

TAG = "host"

router = APIRouter()


@router.post(
    "/v1/host/assemble",
    **told(
        PlacementFailedError,
        ContextOverflowError,
        gives={OK: AssembleResponse},
        takes=json_body(AssembleRequest, ASSEMBLE),
    ),
)
async def assemble_prompt(call: Reading) -> Response:
    """Return the messages of a prompt with lore in its places, where each part came from, tokens.

    The lore is `blocks` of a selection, or an answer of SillyTavern's rules. Nothing is stored,
    and nothing is trimmed: what does not fit the window is refused.
    """
    request = await call.body(AssembleRequest)
    found = await assemble(call.services, call.tenant_id, request)
    return await answer_written(call, found)
