"""Conversations: timed state that lasts from turn to turn."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.pages import PageRequest
from lorewell.app.sillytavern.conversations import (
    delete_conversation as delete,
    get_conversation as get,
    list_conversations as list_page,
)
from lorewell.errors import NotFoundError
from lorewell.http.calls import NO_CONTENT, OK, Reading, Writing, answer
from lorewell.http.openapi import documented
from lorewell.http.parameters import ConversationPath, Cursor, Limit
from lorewell.model import Conversation, ConversationPage

TAG = "conversations"

router = APIRouter()


@router.get("/v1/conversations", **documented(gives={OK: ConversationPage}))
async def list_conversations(call: Reading, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Return a page of conversations, most recently used first."""
    page = PageRequest(limit=limit, cursor=cursor)
    return answer(await list_page(call.services, call.tenant_id, page))


@router.get(
    "/v1/conversations/{conversation_id}", **documented(NotFoundError, gives={OK: Conversation})
)
async def get_conversation(call: Reading, conversation_id: ConversationPath) -> Response:
    """Return a conversation with all its stored states, newest first."""
    found = await get(call.services, call.tenant_id, conversation_id)
    return await call.finish(lambda: answer(found))


@router.delete(
    "/v1/conversations/{conversation_id}", **documented(NotFoundError, gives={NO_CONTENT: None})
)
async def delete_conversation(call: Writing, conversation_id: ConversationPath) -> Response:
    """Delete a conversation and its stored states."""
    await delete(call.services, call.tenant_id, conversation_id)
    return Response(status_code=NO_CONTENT)
