"""Selecting what belongs into a turn, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from lorewell.app.native.selection import open_selection, preview_context, select_context
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
from lorewell.http.calls import OK, Reading, answer_selection
from lorewell.http.examples import PREVIEW, SELECT
from lorewell.http.openapi import json_body, told
from lorewell.http.parameters import AnyPromptId
from lorewell.model import PreviewRequest, SelectRequest, SelectResponse
from lorewell.model.live import Occasion

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
SELECT_PATH = "/v1/context/select"


@router.post(
    SELECT_PATH,
    **told(
        *_PROBLEMS,
        gives={OK: SelectResponse},
        takes=json_body(SelectRequest, SELECT),
        leads_to={
            "selection": (
                "get_selection",
                {"selection_id": "$response.body#/selection_fingerprint"},
            )
        },
    ),
)
async def select_for_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Return what of the requested books belongs into this turn, and why.

    Who watches the prompt that it is for is told of it.
    """
    request = await call.body(SelectRequest)
    occasion = Occasion.of(prompt_id, "select")
    return await answer_selection(
        call, await select_context(call.services, call.tenant_id, request, occasion)
    )


@router.post(
    "/v1/context/preview",
    **told(
        *_PROBLEMS,
        InvalidDependencyError,
        gives={OK: SelectResponse},
        takes=json_body(PreviewRequest, PREVIEW),
    ),
)
async def preview_for_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Select from books that are changed or not stored at all; nothing is stored."""
    del prompt_id  # nobody is told of a preview
    request = await call.body(PreviewRequest)
    return await answer_selection(
        call, await preview_context(call.services, call.tenant_id, request)
    )


@router.get(
    "/v1/selections/{selection_id}",
    **told(*_PROBLEMS, NotFoundError, gives={OK: SelectResponse}),
)
async def get_selection(call: Reading, selection_id: SelectionId) -> Response:
    """Return a selection of a while ago with its whole ledger, computed now."""
    found = await open_selection(call.services, call.tenant_id, selection_id)
    return await answer_selection(call, found)
