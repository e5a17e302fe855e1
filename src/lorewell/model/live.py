"""Frames of the live channel: selections as a front end shows them, and missed events.

Slotted dataclasses, as in `model/decision.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import orjson

from lorewell.model.activated import ContinuedState
from lorewell.model.binding import Policy
from lorewell.model.entry import Role

Door = Literal["select", "activate", "replica", "gateway", "turn"]
MissedReason = Literal["expired", "too_many", "unknown", "overflow"]

MAX_LISTED = 300  # keeps events below 1 MB, the frame limit of common clients
PREVIEW_CHARS = 160
NAME_CHARS = 200  # of a title, a key, or a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """The prompt and conversation that a selection is made for.

    Attributes:
        prompt_id: the prompt.
        source: the interface that the selection came through.
        conversation_id: the conversation, if any.
    """

    prompt_id: str
    source: Door
    conversation_id: str | None = None

    @classmethod
    def of(
        cls, prompt_id: str | None, source: Door, conversation_id: str | None = None
    ) -> Self | None:
        """Return the occasion; None without a prompt."""
        if prompt_id is None:
            return None
        return cls(prompt_id=prompt_id, source=source, conversation_id=conversation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionContext:
    """The context of a selection that its response lacks.

    Attributes:
        tenant_id: the tenant.
        occasion: the prompt and conversation.
        at: when it was made; RFC 3339, in UTC.
        ledger: path and query that open its ledger; None if it is not kept.
    """

    tenant_id: str
    occasion: Occasion
    at: str
    ledger: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntry:
    """An active entry. Members that do not apply are None, and left out of the JSON.

    Attributes:
        book_id: id of a stored book; None for any other, and then kept in the JSON as null.
        book: name of a book without an id.
        entry_id: the entry's id in its book.
        title: the entry's title.
        reason: why it is active, in the terms of its policy.
        key: the key that matched, if a key activated it.
        tokens: its tokens, if the policy counts them.
        preview: the first characters of its text.
    """

    book_id: str | None
    book: str | None = None
    entry_id: str
    title: str
    reason: str
    key: str | None = None
    tokens: int | None = None
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """The entries of one position.

    Attributes:
        position: a name; a number under the policy `replica`.
        label: the position for people.
        depth: for positions in the chat: number of messages that follow.
        role: role of the message that holds the entries.
        outlet_name: name of the outlet.
        entries: in the order of the prompt.
    """

    position: str | int
    label: str
    depth: float | None = None
    role: Role | None = None
    outlet_name: str | None = None
    entries: tuple[LiveEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePosition:
    """The number of active entries at a position.

    Attributes:
        position: a name; a number under the policy `replica`.
        label: the position for people.
        count: number of active entries.
    """

    position: str | int
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStats:
    """Counts of the active entries.

    Attributes:
        total: number of active entries.
        by_position: the count at each position that has any.
        by_reason: the count of each reason.
        tokens: tokens of the lore; None if the policy counts none.
        token_budget: token budget of the lore; None if the policy has none.
        unlisted: number of active entries that no group lists: an event lists at most 300.
    """

    total: int
    by_position: tuple[LivePosition, ...]
    by_reason: Mapping[str, int]
    tokens: int | None
    token_budget: int | None
    unlisted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSelection:
    """A selection for a prompt.

    Attributes:
        id: number of the event; 0 before it has one, and then left out of the JSON.
        type: always `selection`.
        tenant_id: the tenant.
        prompt_id: the prompt.
        policy: the policy that selected.
        source: the interface that the selection came through.
        conversation_id: the conversation, if any.
        at: when the selection was made; RFC 3339, in UTC.
        ledger: path and query of the full ledger; None if it is not kept.
        groups: in the order of the prompt; empty if no entry is active.
        stats: counts of the active entries.
        continued: the timed state that a turn of a conversation started from; None without one, and
            then left out of the JSON.
    """

    id: int = 0
    type: Literal["selection"] = "selection"
    tenant_id: str
    prompt_id: str
    policy: Policy
    source: Door
    conversation_id: str | None
    at: str
    ledger: str | None
    groups: tuple[LiveGroup, ...]
    stats: LiveStats
    continued: ContinuedState | None = None

    def to_json(self) -> bytes:
        """Return the frame as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReady:
    """The start of a subscription: it gets all events from here on.

    Attributes:
        type: always `ready`.
        tenant_id: the tenant.
        prompt_id: the prompt.
        last_id: id of the newest event of any prompt; 0 if there is none.
    """

    type: Literal["ready"] = "ready"
    tenant_id: str
    prompt_id: str
    last_id: int

    def to_json(self) -> bytes:
        """Return the frame as compact JSON in UTF-8."""
        return orjson.dumps(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMissed:
    """A gap: the subscriber may have missed events.

    Attributes:
        id: number of this event, if the missed ones never got one; else 0, and left out of the
            JSON.
        type: always `missed`.
        reason: why events are missing.
        after: the missed events have greater ids than this one; None if unknown.
        before: the missed events have lower ids than this one; None if unknown.
        count: number of missed events, if known.
    """

    id: int = 0
    type: Literal["missed"] = "missed"
    reason: MissedReason
    after: int | None = None
    before: int | None = None
    count: int | None = None

    def to_json(self) -> bytes:
        """Return the frame as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)


LiveFrame = LiveReady | LiveSelection | LiveMissed


def numbered(body: bytes, number: int) -> bytes:
    """Return an event's JSON with its number as `id`.

    >>> numbered(b'{"type":"missed"}', 7)
    b'{"id":7,"type":"missed"}'
    """
    return b'{"id":%d,' % number + body[1:]


def _encode(value: object) -> object:
    match value:
        case LiveEntry() | LiveGroup():
            members = ((name, getattr(value, name)) for name in value.__slots__)
            return {k: v for k, v in members if v is not None or k == "book_id"}
        case LiveSelection() | LiveMissed():
            members = ((name, getattr(value, name)) for name in value.__slots__)
            return {k: v for k, v in members if k not in ("id", "continued") or v}
        case LiveStats() | LivePosition():
            return {name: getattr(value, name) for name in value.__slots__}
    raise TypeError
