"""SillyTavern_replica's rules: a turn, and a preview of one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from lorewell.app.replica.activation import (
    activate_replica as activate,
    explain_replica as explain,
    open_replica,
    preview_replica as preview,
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
from lorewell.http import limits
from lorewell.http.calls import OK, Reading, answer, answer_encoded
from lorewell.http.examples import CHAT_REPLAY, REPLICA, REPLICA_EXPLAIN, REPLICA_PREVIEW
from lorewell.http.openapi import documented, json_body, or_lines
from lorewell.http.parameters import AnyPromptId
from lorewell.http.replay_answers import REPLAY_PROBLEMS, answer_replay
from lorewell.model import ReplicaPreview, ReplicaRequest, ReplicaResponse
from lorewell.model.chat_replay import ChatReplay
from lorewell.model.explained import Explanation, ReplicaExplain
from lorewell.model.live import Occasion
from lorewell.model.replay_request import ChatReplayRequest

TAG = "replica"
_PROBLEMS = (
    BindingInvalidError,
    PolicyMismatchError,
    SnapshotTooLargeError,
    TooExpensiveError,
)
_GONE = (BookNotFoundError, RevisionNotFoundError)

ActivationId = Annotated[str, Path(description="The `activation_id` of an answer.")]

router = APIRouter()


@router.post(
    "/v1/replica/activate",
    **documented(
        *_PROBLEMS,
        gives={OK: ReplicaResponse},
        takes=json_body(ReplicaRequest, REPLICA, limits.REPLICA),
        leads_to={
            "ledger": (
                "get_replica_activation",
                {"activation_id": "$response.body#/activation_id"},
            )
        },
    ),
)
async def activate_replica(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Return the active entries of the books in this turn, and the reasons.

    Subscribers to the prompt `prompt_id` of the query, else of the body, get a live event.
    """
    request = await call.body(ReplicaRequest)
    occasion = Occasion.of(prompt_id or request.prompt_id, "replica")
    found = await activate(call.services, call.tenant_id, request, occasion)
    call.shared.metrics.activated(found)
    return await answer_encoded(call, found)


@router.get(
    "/v1/replica/activations/{activation_id}",
    **documented(*_PROBLEMS, *_GONE, NotFoundError, gives={OK: ReplicaResponse}),
)
async def get_replica_activation(call: Reading, activation_id: ActivationId) -> Response:
    """Return a recent turn with its whole ledger, recomputed."""
    found = await open_replica(call.services, call.tenant_id, activation_id)
    return await answer_encoded(call, found)


@router.post(
    "/v1/replica/preview",
    **documented(
        *_PROBLEMS,
        *_GONE,
        gives={OK: ReplicaResponse},
        takes=json_body(ReplicaPreview, REPLICA_PREVIEW, limits.REPLICA),
    ),
)
async def preview_replica(call: Reading) -> Response:
    """Activate books with unsaved changes to some entries; nothing is kept."""
    request = await call.body(ReplicaPreview)
    found = await preview(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)


@router.post(
    "/v1/replica/explain",
    **documented(
        *_PROBLEMS,
        *_GONE,
        gives={OK: Explanation},
        takes=json_body(ReplicaExplain, REPLICA_EXPLAIN, limits.REPLICA),
    ),
)
async def explain_replica(call: Reading) -> Response:
    """Explain one entry under SillyTavern_replica's rules, and what would flip the verdict."""
    asked = await call.body(ReplicaExplain)
    return answer(await explain(call.services, call.tenant_id, asked))


@router.post(
    "/v1/replica/replay",
    **documented(
        *REPLAY_PROBLEMS,
        gives={OK: or_lines(ChatReplay)},
        takes=json_body(ChatReplayRequest, CHAT_REPLAY, limits.BOOKS),
    ),
)
async def replay_replica(call: Reading) -> Response:
    """Run a whole chat through books, turn by turn; nothing is stored.

    With `Accept: application/x-ndjson`, each turn is a line that is sent as soon as it is computed.
    """
    return await answer_replay(call, "replica")
