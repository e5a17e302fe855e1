"""Conversations: the state and the lines that are stored from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lorewell.app.pages import PageRequest, cursor_of, cut_page, parse_cursor
from lorewell.app.ports import Transaction
from lorewell.app.rows import ConversationRow, PairsChange, StateMark
from lorewell.app.services import Services
from lorewell.app.sillytavern.places import StartingState, TurnChat, pairs_of
from lorewell.app.times import stamp
from lorewell.errors import NotFoundError
from lorewell.host.alignment import Place, SentLine, chains_from, extend, hash_lines
from lorewell.host.carried import CarriedState
from lorewell.host.known_lines import KnownLines
from lorewell.model import (
    Conversation,
    ConversationInfo,
    ConversationPage,
    KeptState,
)

_FEW_EFFECTS = 200
_FEW_LINES = 200
MAX_STATES_BYTES: Final = 32 * 1024 * 1024  # of a conversation's states, at the size of the newest


async def keep_turn(
    services: Services,
    tenant_id: str,
    chat: TurnChat,
    begun: StartingState,
    state: CarriedState,
) -> None:
    """Store the state after a turn, its lines, and the global variables of its user.

    All but the newest states and lines of the conversation are dropped.
    """
    user, shared = begun.user_turn, state.variables.get("global", {})
    if user is not None:
        state = state.with_globals({})
    name, place = (tenant_id, begun.report.conversation_id), begun.place
    mark = StateMark(
        messages_hash=place.end.hex(), message_count=place.length, kept_at=services.clock.now()
    )

    def write() -> tuple[bytes, bytes]:
        return state.dump(), extend(begun.known, place, chat.lines).dump()

    is_small = (  # faster than the hop to a thread
        sum(map(len, state.timed_state.values())) < _FEW_EFFECTS
        and not state.variables
        and len(begun.known.lines) + len(chat.lines) < _FEW_LINES
    )
    body, lines = write() if is_small else await services.computing.finish(tenant_id, write)
    most = max(1, min(services.max_conversation_states, MAX_STATES_BYTES // len(body)))

    def store(tx: Transaction) -> None:
        if begun.copied is not None:
            tx.keep_state(*name, *begun.copied, most=most)
        tx.keep_state(*name, mark, body, most=most)  # from here on, other writers wait
        stored = tx.find_lines(*name)
        if stored == begun.body:
            _put_lines(tx, name, chat.scope, stored, lines)
        else:
            known = extend(KnownLines.parse(stored or b""), place, chat.lines)
            _put_lines(tx, name, chat.scope, stored, known.dump())
        if user is not None:
            user.keep(tx, tenant_id, shared, mark.kept_at, most=services.max_variable_users)

    await services.store.write(store)


async def keep_reply(
    services: Services, tenant_id: str, chat: TurnChat, begun: StartingState, text: str
) -> None:
    """Store the reply to a turn as a known line, so that the next turn can be recognised by it."""
    key = await services.secrets.get(services.store, tenant_id, make=True)
    reply = hash_lines(key, [SentLine(chat.replier, text, is_reply=True)])
    name, end = (tenant_id, begun.report.conversation_id), begun.place.end

    def store(tx: Transaction) -> None:
        stored = tx.find_lines(*name, lock=True)
        known = KnownLines.parse(stored or b"")
        if end not in known.by_chain:
            return
        place = Place(
            first=begun.place.length, head=0, chains=tuple(chains_from(end, reply)), overlap=0
        )
        answered = extend(known, place, reply, ends_turn=False)
        _put_lines(tx, name, chat.scope, stored, answered.dump())

    await services.store.write(store)


def _put_lines(
    tx: Transaction, name: tuple[str, str], scope: bytes, stored: bytes | None, lines: bytes
) -> None:
    if stored == lines:
        return
    tx.put_lines(*name, lines)
    if scope:
        old = pairs_of(scope, KnownLines.parse(stored or b""))
        new = pairs_of(scope, KnownLines.parse(lines))
        tx.put_pairs(*name, PairsChange(sorted(new - old), sorted(old - new)))


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
        states=tuple(_kept_state(*each) for each in states),
    )


def _kept_state(mark: StateMark, body: bytes) -> KeptState:
    state = CarriedState.parse(body)
    return KeptState(
        message_count=mark.message_count,
        messages_hash=mark.messages_hash,
        timed_state={**state.timed_state},
        variables={scope: {**each} for scope, each in state.variables.items()},
        chat_hash=state.chat_hash,
        kept_at=stamp(mark.kept_at),
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
