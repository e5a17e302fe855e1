"""Conversations: the timed state after each of their turns, and their lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, and_, bindparam, delete, func, or_, select

from lorewell.app.rows import ConversationRow, PairsChange, StateMark
from lorewell.errors import LorewellError
from lorewell.store.statements import Statements
from lorewell.store.tables import (
    conversation_lines as lines,
    conversation_pairs as pairs,
    conversation_states as states,
    conversations,
    tenant_secrets,
    user_variables,
)

_MAX_SHARED = 8

_OF_CONVERSATION = (states.c.tenant_id == bindparam("tenant")) & (
    states.c.conversation_id == bindparam("conversation")
)
_IS_CONVERSATION = (conversations.c.tenant_id == bindparam("tenant")) & (
    conversations.c.conversation_id == bindparam("conversation")
)
_NEWEST_FIRST = (states.c.kept_at.desc(), states.c.message_count.desc(), states.c.messages_hash)
_COUNT = (
    select(func.count())
    .where(
        states.c.tenant_id == conversations.c.tenant_id,
        states.c.conversation_id == conversations.c.conversation_id,
    )
    .correlate(conversations)
    .scalar_subquery()
)
_ROWS = select(conversations, _COUNT.label("state_count"))
_FIND = _ROWS.where(_IS_CONVERSATION)
_MARK = ("messages_hash", "message_count", "kept_at")
_MARKS = (
    select(*(states.c[name] for name in _MARK)).where(_OF_CONVERSATION).order_by(*_NEWEST_FIRST)
)
_STATES = _MARKS.add_columns(states.c.state)
_STATE = select(states.c.state).where(
    _OF_CONVERSATION, states.c.messages_hash == bindparam("messages")
)
_OLD = (
    select(states.c.messages_hash)
    .where(_OF_CONVERSATION)
    .order_by(*_NEWEST_FIRST)
    .offset(bindparam("most"))
)
_DROP = delete(states).where(_OF_CONVERSATION, states.c.messages_hash.in_(_OLD))
_DELETE = delete(conversations).where(_IS_CONVERSATION)
_LOCK = select(conversations.c.updated_at).where(_IS_CONVERSATION).with_for_update()
_LINES = select(lines.c.body).where(
    lines.c.tenant_id == bindparam("tenant"),
    lines.c.conversation_id == bindparam("conversation"),
)
_IS_PAIR = (pairs.c.tenant_id == bindparam("tenant")) & pairs.c.pair.in_(
    bindparam("pairs", expanding=True)
)
_PAIRED = select(pairs.c.pair, pairs.c.conversation_id).where(_IS_PAIR)
_SHARED = (
    select(pairs.c.pair).where(_IS_PAIR).group_by(pairs.c.pair).having(func.count() >= _MAX_SHARED)
)
_UNPAIR = delete(pairs).where(_IS_PAIR, pairs.c.conversation_id == bindparam("conversation"))
_IS_OWNER = (user_variables.c.tenant_id == bindparam("tenant")) & (
    user_variables.c.owner == bindparam("owner")
)
_VARIABLES = select(user_variables.c.body).where(_IS_OWNER)
_LOCKED_VARIABLES = _VARIABLES.with_for_update()
_DROP_VARIABLES = delete(user_variables).where(_IS_OWNER)
_OF_TENANT = user_variables.c.tenant_id == bindparam("tenant")
_OLD_OWNERS = (
    select(user_variables.c.owner)
    .where(_OF_TENANT)
    .order_by(user_variables.c.kept_at.desc(), user_variables.c.owner)
    .offset(bindparam("most"))
)
_DROP_OLD_VARIABLES = delete(user_variables).where(
    _OF_TENANT, user_variables.c.owner.in_(_OLD_OWNERS)
)
_SECRET = select(tenant_secrets.c.secret).where(tenant_secrets.c.tenant_id == bindparam("tenant"))


class ConversationStatements(Statements):
    """The statements on conversations."""

    def keep_state(
        self, tenant_id: str, conversation_id: str, mark: StateMark, state: bytes, *, most: int
    ) -> None:
        """Store a state; of a conversation's states only the newest `most` stay."""
        name = {"tenant_id": tenant_id, "conversation_id": conversation_id}
        # First the row of the conversation, which serializes concurrent writers.
        times = {"created_at": mark.kept_at, "updated_at": mark.kept_at}
        self._put(conversations, {**name, **times}, once=("created_at",))
        kept = {
            "messages_hash": mark.messages_hash,
            "message_count": mark.message_count,
            "state": self._pack(state),
            "kept_at": mark.kept_at,
        }
        self._put(states, {**name, **kept})
        self._change(_DROP, tenant=tenant_id, conversation=conversation_id, most=most)

    def find_conversation(self, tenant_id: str, conversation_id: str) -> ConversationRow | None:
        """Return a conversation."""
        found = self._row(_FIND, tenant=tenant_id, conversation=conversation_id)
        return None if found is None else ConversationRow(**found)

    def list_conversations(
        self, tenant_id: str, *, limit: int, after: tuple[datetime, str] | None
    ) -> Sequence[ConversationRow]:
        """Return conversations by `updated_at` descending, then id ascending."""
        statement: Select[tuple[object, ...]] = _ROWS
        statement = statement.where(conversations.c.tenant_id == tenant_id)
        if after is not None:
            time, name = after
            is_later = conversations.c.conversation_id > name
            statement = statement.where(
                conversations.c.updated_at <= time,  # redundant, but an index can use it
                or_(
                    conversations.c.updated_at < time,
                    and_(conversations.c.updated_at == time, is_later),
                ),
            )
        order = (conversations.c.updated_at.desc(), conversations.c.conversation_id)
        found = self._rows(statement.order_by(*order).limit(limit))
        return [ConversationRow(**row) for row in found]

    def list_marks(self, tenant_id: str, conversation_id: str) -> Sequence[StateMark]:
        """Return the marks of a conversation's states, newest first, then longest first."""
        found = self._rows(_MARKS, tenant=tenant_id, conversation=conversation_id)
        return [StateMark(**row) for row in found]

    def list_states(
        self, tenant_id: str, conversation_id: str
    ) -> Sequence[tuple[StateMark, bytes]]:
        """Return a conversation's states in the order of `list_marks`."""
        found = self._rows(_STATES, tenant=tenant_id, conversation=conversation_id)
        return [
            (StateMark(**{name: row[name] for name in _MARK}), self._unpack(row["state"]))
            for row in found
        ]

    def get_state(self, tenant_id: str, conversation_id: str, messages_hash: str) -> bytes:
        """Return a stored state."""
        named = {"tenant": tenant_id, "conversation": conversation_id, "messages": messages_hash}
        found = self._row(_STATE, **named)
        if found is None:
            raise LorewellError("A stored state is missing.", messages_hash=messages_hash)
        return self._unpack(found["state"])

    def delete_conversation(self, tenant_id: str, conversation_id: str) -> bool:
        """Delete a conversation; the foreign keys cascade to its states, lines and pairs."""
        return self._change(_DELETE, tenant=tenant_id, conversation=conversation_id) == 1

    def find_lines(
        self, tenant_id: str, conversation_id: str, *, lock: bool = False
    ) -> bytes | None:
        """Return the stored lines of a conversation; `lock` blocks other writers of them."""
        if lock:
            self._row(_LOCK, tenant=tenant_id, conversation=conversation_id)
        found = self._row(_LINES, tenant=tenant_id, conversation=conversation_id)
        return None if found is None else found["body"]

    def put_lines(self, tenant_id: str, conversation_id: str, body: bytes) -> None:
        """Store the lines of a conversation; hashes do not compress."""
        name = {"tenant_id": tenant_id, "conversation_id": conversation_id}
        self._put(lines, {**name, "body": body})

    def put_pairs(self, tenant_id: str, conversation_id: str, change: PairsChange) -> None:
        """Add and remove pairs; one that 8 conversations have is not added."""
        name = {"tenant": tenant_id, "conversation": conversation_id}
        if change.removed:
            self._change(_UNPAIR, **name, pairs=change.removed)
        if not change.added:
            return
        found = self._rows(_SHARED, tenant=tenant_id, pairs=change.added)
        shared = {row["pair"] for row in found}
        rows = [
            {"tenant_id": tenant_id, "pair": pair, "conversation_id": conversation_id}
            for pair in change.added
            if pair not in shared
        ]
        if rows:
            self._execute(self._insert(pairs).on_conflict_do_nothing(), rows)

    def find_paired(self, tenant_id: str, pairs: Sequence[bytes]) -> Sequence[tuple[bytes, str]]:
        """Return which conversations have these pairs, in the order of the ids."""
        if not pairs:
            return []
        found = self._rows(_PAIRED, tenant=tenant_id, pairs=pairs)
        return sorted(
            ((row["pair"], row["conversation_id"]) for row in found),
            key=lambda each: (each[1], each[0]),
        )

    def find_variables(self, tenant_id: str, owner: bytes, *, lock: bool = False) -> bytes | None:
        """Return the global variables of a user; `lock` blocks other writers of them."""
        name = {"tenant": tenant_id, "owner": owner}
        found = self._row(_LOCKED_VARIABLES if lock else _VARIABLES, **name)
        return None if found is None else self._unpack(found["body"])

    def put_variables(self, tenant_id: str, owner: bytes, body: bytes | None, at: datetime) -> None:
        """Store the global variables of a user in place of earlier ones; None deletes them."""
        if body is None:
            self._change(_DROP_VARIABLES, tenant=tenant_id, owner=owner)
            return
        kept = {"body": self._pack(body), "kept_at": at}
        self._put(user_variables, {"tenant_id": tenant_id, "owner": owner, **kept})

    def drop_old_variables(self, tenant_id: str, *, most: int) -> None:
        """Delete the global variables of all users but the `most` whose changed last."""
        self._change(_DROP_OLD_VARIABLES, tenant=tenant_id, most=most)

    def add_secret(self, tenant_id: str, secret: bytes) -> bytes:
        """Store the tenant's secret unless it has one; return the stored one."""
        self._add(tenant_secrets, {"tenant_id": tenant_id, "secret": secret})
        found = self.find_secret(tenant_id)
        if found is None:
            raise LorewellError("A stored secret is missing.", tenant_id=tenant_id)
        return found

    def find_secret(self, tenant_id: str) -> bytes | None:
        """Return the tenant's secret."""
        found = self._row(_SECRET, tenant=tenant_id)
        return None if found is None else found["secret"]
