"""Assembly of prompts from messages and lore."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.assembly import assemble_prompt as assemble
from lorewell.errors import ContextOverflowError, PlacementFailedError
from lorewell.http.calls import OK, Reading, answer_encoded
from lorewell.http.examples import ASSEMBLE
from lorewell.http.limits import TURN
from lorewell.http.openapi import documented, json_body
from lorewell.model import AssembleRequest, AssembleResponse

TAG = "host"

router = APIRouter()


@router.post(
    "/v1/host/assemble",
    **documented(
        PlacementFailedError,
        ContextOverflowError,
        gives={OK: AssembleResponse},
        takes=json_body(AssembleRequest, ASSEMBLE, TURN),
    ),
)
async def assemble_prompt(call: Reading) -> Response:
    """Return the messages of a prompt with the lore in place, the origin of each part, and tokens.

    The lore is the `blocks` of a selection, or an answer of SillyTavern's rules. Nothing is stored.
    Nothing is trimmed: a prompt that does not fit the window is refused.
    """
    request = await call.body(AssembleRequest)
    found = await assemble(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)
