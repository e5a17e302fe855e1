"""Token counts."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.tokens import count_tokens as count
from lorewell.http.calls import OK, Reading, answer
from lorewell.http.limits import TURN
from lorewell.http.openapi import documented, json_body
from lorewell.model import TokenCountRequest, TokenCounts

TAG = "tokens"

router = APIRouter()


@router.post(
    "/v1/tokens/count",
    **documented(
        gives={OK: TokenCounts},
        takes=json_body(TokenCountRequest, {"texts": ["the lamp is lit"]}, TURN),
    ),
)
async def count_tokens(call: Reading) -> Response:
    """Count the tokens of each text."""
    request = await call.body(TokenCountRequest)
    return answer(await count(call.services, call.tenant_id, request))
