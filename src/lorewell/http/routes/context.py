"""Selections for turns."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.routing import APIRoute

from lorewell.app.native.selection import (
    explain_context as explain,
    open_selection,
    preview_context,
    select_context,
)
from lorewell.errors import (
    BookNotFoundError,
    BudgetExceededError,
    InvalidDependencyError,
    NotFoundError,
    RequiredConflictError,
    RequiredDependencyUnavailableError,
    RequiredPlacementUnsupportedError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    TooExpensiveError,
)
from lorewell.http.calls import OK, Reading, answer, answer_selection
from lorewell.http.examples import CHAT_REPLAY, EXPLAIN, PREVIEW, SELECT
from lorewell.http.limits import BOOKS, TURN
from lorewell.http.openapi import documented, json_body, or_lines
from lorewell.http.parameters import AnyPromptId
from lorewell.http.replay_answers import REPLAY_PROBLEMS, answer_replay
from lorewell.model import PreviewRequest, SelectRequest, SelectResponse
from lorewell.model.chat_replay import ChatReplay
from lorewell.model.explained import ContextExplain, Explanation
from lorewell.model.live import Occasion
from lorewell.model.replay_request import ChatReplayRequest

TAG = "context"
_PROBLEMS = (
    TooExpensiveError,
    BookNotFoundError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    RequiredPlacementUnsupportedError,
    RequiredDependencyUnavailableError,
    RequiredConflictError,
    BudgetExceededError,
)

SelectionId = Annotated[str, Path(description="`selection_fingerprint` of an answer.")]

router = APIRouter()


@router.post(
    "/v1/context/select",
    **documented(
        *_PROBLEMS,
        gives={OK: SelectResponse},
        takes=json_body(SelectRequest, SELECT, TURN),
        leads_to={
            "selection": (
                "get_selection",
                {"selection_id": "$response.body#/selection_fingerprint"},
            )
        },
    ),
)
async def select_for_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Return which entries of the books go into this turn, and why the others don't.

    Subscribers to the prompt `prompt_id` get a live event.
    """
    request = await call.body(SelectRequest)
    occasion = Occasion.of(prompt_id, "select")
    return await answer_selection(
        call, await select_context(call.services, call.tenant_id, request, occasion)
    )


SELECT_ROUTE = next(each for each in router.routes if isinstance(each, APIRoute))
"""The route of `select_for_turn`."""


@router.post(
    "/v1/context/preview",
    **documented(
        *_PROBLEMS,
        InvalidDependencyError,
        gives={OK: SelectResponse},
        takes=json_body(PreviewRequest, PREVIEW, BOOKS),
    ),
)
async def preview_for_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Select from books with unsaved changes, or not stored at all; nothing is stored."""
    del prompt_id  # a preview sends no live event
    request = await call.body(PreviewRequest)
    return await answer_selection(
        call, await preview_context(call.services, call.tenant_id, request)
    )


@router.post(
    "/v1/context/explain",
    **documented(
        TooExpensiveError,
        BookNotFoundError,
        RevisionNotFoundError,
        SnapshotTooLargeError,
        InvalidDependencyError,
        gives={OK: Explanation},
        takes=json_body(ContextExplain, EXPLAIN, BOOKS),
    ),
)
async def explain_context(call: Reading) -> Response:
    """Explain one entry: its gates, near misses of its keys, and what would flip the verdict."""
    asked = await call.body(ContextExplain)
    return answer(await explain(call.services, call.tenant_id, asked))


@router.get(
    "/v1/selections/{selection_id}",
    **documented(*_PROBLEMS, NotFoundError, gives={OK: SelectResponse}),
)
async def get_selection(call: Reading, selection_id: SelectionId) -> Response:
    """Return a recent selection with its whole ledger, recomputed."""
    found = await open_selection(call.services, call.tenant_id, selection_id)
    return await answer_selection(call, found)


@router.post(
    "/v1/context/replay",
    **documented(
        *REPLAY_PROBLEMS,
        gives={OK: or_lines(ChatReplay)},
        takes=json_body(ChatReplayRequest, CHAT_REPLAY, BOOKS),
    ),
)
async def replay_context(call: Reading) -> Response:
    """Run a whole chat through books, turn by turn; nothing is stored.

    With `Accept: application/x-ndjson`, each turn is a line that is sent as soon as it is computed.
    """
    return await answer_replay(call, "native")
