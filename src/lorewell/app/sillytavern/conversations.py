"""Conversations: timed state stored from turn to turn.

The state after a turn is stored under the hash of all messages of that turn. The next turn starts
with the state of the longest stored chat that its own chat continues. So a swipe, which has the
same messages again, starts as the first attempt did, and an edited or branched chat starts with the
state before the change. No locks are needed, and repeating a turn changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorewell.app.pages import PageRequest, cursor_of, cut_page, parse_cursor
from lorewell.app.ports import Transaction
from lorewell.app.rows import ConversationRow, StateMark
from lorewell.app.services import Services
from lorewell.app.times import stamp
from lorewell.errors import NotFoundError
from lorewell.model import (
    ActivateRequest,
    Conversation,
    ConversationInfo,
    ConversationPage,
    KeptState,
)
from lorewell.model.activate import ChatLine
from lorewell.model.activated import Continued
from lorewell.model.text import canonical_json

_SHORT_CHARS = 50_000
_FEW_EFFECTS = 200

TimedState = Mapping[str, Mapping[str, Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingState:
    """The timed state that a turn of a conversation starts with, and its report in the answer."""

    timed_state: dict[str, Any]
    report: Continued

    def of(self, request: ActivateRequest) -> ActivateRequest:
        """Return the request with this state."""
        return request.model_copy(update={"timed_state": self.timed_state})


async def hash_beginnings(
    services: Services, tenant_id: str, request: ActivateRequest
) -> list[str]:
    """Return the hashes of the first 0, 1, 2, …, all messages of a conversation's chat."""
    if request.conversation_id is None:
        return []
    if (
        sum(len(line.content) for line in request.chat) < _SHORT_CHARS
    ):  # faster than the hop to a thread
        return _hash_beginnings(request.chat)
    return await services.computing.run(tenant_id, lambda: _hash_beginnings(request.chat))


def _hash_beginnings(chat: Sequence[ChatLine]) -> list[str]:
    running = hashlib.sha256()
    hashes = [running.hexdigest()]
    for line in chat:
        running.update(canonical_json([line.name, line.content]))
        hashes.append(running.hexdigest())
    return hashes


def find_beginning(
    tx: Transaction, tenant_id: str, request: ActivateRequest, hashes: Sequence[str]
) -> StartingState | None:
    """Return the starting state of a turn; None if it belongs to no conversation.

    A state in the request takes precedence over stored ones.
    """
    name = request.conversation_id
    if name is None:
        return None
    if "timed_state" in request.model_fields_set:
        report = Continued(conversation_id=name, state="given")
        return StartingState(timed_state=request.timed_state, report=report)
    before = {
        mark.message_count: mark
        for mark in tx.list_marks(tenant_id, name)
        if mark.message_count < len(request.chat)
        and hashes[mark.message_count] == mark.messages_hash
    }
    if not before:
        return StartingState(timed_state={}, report=Continued(conversation_id=name, state="none"))
    longest = max(before)
    state = tx.get_state(tenant_id, name, before[longest].messages_hash)
    report = Continued(conversation_id=name, state="kept", kept_after=longest)
    return StartingState(timed_state=json.loads(state), report=report)


async def keep_state(
    services: Services, name: tuple[str, str], hashes: Sequence[str], state: TimedState
) -> None:
    """Store the state after a turn, and drop all but the newest states of the conversation."""
    mark = StateMark(
        messages_hash=hashes[-1], message_count=len(hashes) - 1, kept_at=services.clock.now()
    )

    def write() -> bytes:
        return json.dumps(state).encode()

    is_small = sum(map(len, state.values())) < _FEW_EFFECTS  # faster than the hop to a thread
    body = write() if is_small else await services.computing.finish(name[0], write)
    most = services.max_conversation_states
    await services.store.write(lambda tx: tx.keep_state(*name, mark, body, most=most))


async def list_conversations(
    services: Services, tenant_id: str, page: PageRequest
) -> ConversationPage:
    """Return a page of conversations, last used first.

    Raises:
        ValidationFailedError: the cursor is invalid.
    """
    after = None
    if page.cursor is not None:
        time, (name,) = parse_cursor(page.cursor, names=1)
        after = (time, name)
    rows = await services.store.read(
        lambda tx: tx.list_conversations(tenant_id, limit=page.limit + 1, after=after)
    )
    shown, next_cursor = cut_page(
        rows, page, lambda row: cursor_of(row.updated_at, row.conversation_id)
    )
    return ConversationPage(
        conversations=tuple(ConversationInfo(**_info(row)) for row in shown),
        next_cursor=next_cursor,
    )


async def get_conversation(
    services: Services, tenant_id: str, conversation_id: str
) -> Conversation:
    """Return a conversation with all its stored states, newest first.

    Raises:
        NotFoundError: there is no such conversation.
    """

    def load(tx: Transaction) -> tuple[ConversationRow, Sequence[tuple[StateMark, bytes]]]:
        row = tx.find_conversation(tenant_id, conversation_id)
        if row is None:
            raise _no_conversation(conversation_id)
        return row, tx.list_states(tenant_id, conversation_id)

    async with services.computing.turn(tenant_id) as turn:
        row, states = await services.store.read(load)
        return await turn.run(lambda: _conversation(row, states))


def _conversation(row: ConversationRow, states: Sequence[tuple[StateMark, bytes]]) -> Conversation:
    return Conversation(
        **_info(row),
        states=tuple(
            KeptState(
                message_count=mark.message_count,
                messages_hash=mark.messages_hash,
                timed_state=json.loads(state),
                kept_at=stamp(mark.kept_at),
            )
            for mark, state in states
        ),
    )


async def delete_conversation(services: Services, tenant_id: str, conversation_id: str) -> None:
    """Delete a conversation with all its states.

    Raises:
        NotFoundError: there is no such conversation.
    """
    if not await services.store.write(
        lambda tx: tx.delete_conversation(tenant_id, conversation_id)
    ):
        raise _no_conversation(conversation_id)


def _no_conversation(conversation_id: str) -> NotFoundError:
    return NotFoundError(f"There is no conversation {conversation_id!r}.")


def _info(row: ConversationRow) -> dict[str, Any]:
    return {
        "conversation_id": row.conversation_id,
        "tenant_id": row.tenant_id,
        "state_count": row.state_count,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }
