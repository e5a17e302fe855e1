"""The answer of a route that replays a chat: one JSON document, or a line for each turn."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from lorewell.app.replays import replay_books, stream_replay
from lorewell.errors import (
    BindingInvalidError,
    BookNotFoundError,
    InvalidDependencyError,
    PolicyMismatchError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    TooExpensiveError,
)
from lorewell.http.calls import Call, answer_encoded
from lorewell.http.lines import LineStream, wants_lines
from lorewell.model import Policy
from lorewell.model.replay_request import ChatReplayRequest

REPLAY_PROBLEMS: Final = (
    TooExpensiveError,
    BindingInvalidError,
    PolicyMismatchError,
    BookNotFoundError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    InvalidDependencyError,
)


async def answer_replay(call: Call, policy: Policy) -> Response:
    """Return the replay of a chat under a policy, in the form that the client asks for."""
    request = await call.body(ChatReplayRequest)
    if wants_lines(call.request):
        return LineStream(stream_replay(call.services, call.tenant_id, request, policy))
    found = await replay_books(call.services, call.tenant_id, request, policy)
    return await answer_encoded(call, found)
