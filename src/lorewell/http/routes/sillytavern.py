"""SillyTavern's rules: a turn, a preview of one, and a whole chat."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from lorewell.app.sillytavern.activation import (
    activate_turn,
    explain_activation as explain,
    open_activation,
    preview_turn,
    replay_chat as replay,
    stream_chat,
)
from lorewell.errors import (
    BindingInvalidError,
    BookNotFoundError,
    NotFoundError,
    PolicyMismatchError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    TooExpensiveError,
)
from lorewell.http.calls import OK, Reading, answer, answer_encoded
from lorewell.http.examples import ACTIVATE, ACTIVATE_EXPLAIN, ACTIVATE_PREVIEW, REPLAY
from lorewell.http.gateway_headers import LEDGER
from lorewell.http.ledgers import ledger_path
from lorewell.http.limits import BOOKS, TURN
from lorewell.http.lines import LineStream, wants_lines
from lorewell.http.openapi import documented, json_body, or_lines
from lorewell.http.parameters import AnyPromptId
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    ReplayRequest,
    ReplayResponse,
    SillyTavernResponse,
)
from lorewell.model.explained import Explanation, SillyTavernExplain
from lorewell.model.live import Occasion

TAG = "sillytavern"
_PROBLEMS = (
    TooExpensiveError,
    BindingInvalidError,
    PolicyMismatchError,
    BookNotFoundError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
)

ActivationId = Annotated[
    str,
    Path(description="The id in the header `X-Lorewell-Ledger` of an answer, or in a live event."),
]

router = APIRouter()


@router.post(
    "/v1/sillytavern/activate",
    **documented(
        *_PROBLEMS,
        gives={OK: SillyTavernResponse},
        takes=json_body(ActivateRequest, ACTIVATE, TURN),
        leads_to={
            "conversation": (
                "get_conversation",
                {"conversation_id": "$request.body#/conversation_id"},
            )
        },
    ),
)
async def activate_for_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Run one turn under SillyTavern's rules; return the active entries and the reasons.

    With a `conversation_id`, timed state is kept from turn to turn; this needs the scope `write`.
    Subscribers to the prompt `prompt_id` of the query, else of the body, get a live event. A turn
    whose books are all stored is kept for a while; `X-Lorewell-Ledger` is the path of its ledger.
    """
    request = await call.body(ActivateRequest)
    if request.conversation_id is not None:
        await call.need("write")
    name = prompt_id or request.prompt_id
    occasion = Occasion.of(name, "activate", request.conversation_id)
    found = await activate_turn(call.services, call.tenant_id, request, occasion)
    response = await answer_encoded(call, found.response)
    if found.ledger is not None:
        response.headers[LEDGER] = ledger_path(found.ledger)
    return response


@router.get(
    "/v1/sillytavern/activations/{activation_id}",
    **documented(*_PROBLEMS, NotFoundError, gives={OK: SillyTavernResponse}),
)
async def get_activation(call: Reading, activation_id: ActivationId) -> Response:
    """Return a recent turn of stored books with its whole ledger, recomputed."""
    found = await open_activation(call.services, call.tenant_id, activation_id)
    return await answer_encoded(call, found)


@router.post(
    "/v1/sillytavern/preview",
    **documented(
        *_PROBLEMS,
        gives={OK: SillyTavernResponse},
        takes=json_body(ActivatePreview, ACTIVATE_PREVIEW, BOOKS),
    ),
)
async def preview_activation(call: Reading) -> Response:
    """Activate books with unsaved changes, or not stored at all; nothing is kept."""
    request = await call.body(ActivatePreview)
    found = await preview_turn(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)


@router.post(
    "/v1/sillytavern/explain",
    **documented(
        *_PROBLEMS,
        gives={OK: Explanation},
        takes=json_body(SillyTavernExplain, ACTIVATE_EXPLAIN, BOOKS),
    ),
)
async def explain_activation(call: Reading) -> Response:
    """Explain one entry under SillyTavern's rules, and what would flip the verdict."""
    asked = await call.body(SillyTavernExplain)
    return answer(await explain(call.services, call.tenant_id, asked))


@router.post(
    "/v1/sillytavern/replay",
    **documented(
        *_PROBLEMS,
        gives={OK: or_lines(ReplayResponse)},
        takes=json_body(ReplayRequest, REPLAY, TURN),
    ),
)
async def replay_chat(call: Reading) -> Response:
    """Run a whole chat turn by turn; return active entries, timed state and budget of each turn.

    With `Accept: application/x-ndjson`, each turn is a line that is sent as soon as it is computed.
    """
    request = await call.body(ReplayRequest)
    if wants_lines(call.request):
        return LineStream(stream_chat(call.services, call.tenant_id, request))
    found = await replay(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)
