"""What the live channel tells: one selection as a front end shows it, and what was missed.

Slotted dataclasses, as in `model/decision.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import orjson

from lorewell.model.binding import Policy
from lorewell.model.entry import Role

Door = Literal["select", "activate", "replica", "gateway", "turn"]
MissedReason = Literal["expired", "too_many", "unknown", "overflow"]

MAX_LISTED = 300  # so that an event is no larger than the megabyte that clients take
PREVIEW_CHARS = 160
NAME_CHARS = 200  # of a title, a key, or a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What a selection is made for.

    Attributes:
        source: the door that it came through.
    """

    prompt_id: str
    source: Door
    conversation_id: str | None = None

    @classmethod
    def of(
        cls, prompt_id: str | None, source: Door, conversation_id: str | None = None
    ) -> Self | None:
        """Return the occasion; None if nobody said which prompt it is for."""
        if prompt_id is None:
            return None
        return cls(prompt_id=prompt_id, source=source, conversation_id=conversation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionContext:
    """What an event says of a selection besides its answer.

    Attributes:
        at: when it was made; RFC 3339, UTC.
        ledger: path and query that open its ledger; None if it is not kept.
    """

    tenant_id: str
    occasion: Occasion
    at: str
    ledger: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntry:
    """An active entry. What does not apply is None, and left out of the JSON.

    Attributes:
        book_id: of a stored book.
        book: the name of a book without an id.
        reason: why it is in, by the word of its policy.
        key: what was found, if a key did it.
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
    """The entries of one place, in their order there.

    Attributes:
        position: a word; under the policy `replica` a number.
        label: the position for people.
    """

    position: str | int
    label: str
    depth: float | None = None
    role: Role | None = None
    outlet_name: str | None = None
    entries: tuple[LiveEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePosition:
    """How many active entries have a position."""

    position: str | int
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStats:
    """What was activated, counted.

    Attributes:
        tokens, token_budget: of the lore; None where the policy counts none.
        unlisted: how many of `total` are in no group, since no event lists more than 300.
    """

    total: int
    by_position: tuple[LivePosition, ...]
    by_reason: Mapping[str, int]
    tokens: int | None
    token_budget: int | None
    unlisted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSelection:
    """One selection that was made for a prompt.

    Attributes:
        id: its number; 0 before it has one, and then left out of the JSON.
        at: when it was made; RFC 3339, UTC.
        ledger: path and query that open the whole ledger, if it is kept.
        groups: in the order of the prompt; none if nothing is active.
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

    def to_json(self) -> bytes:
        """Return it as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReady:
    """From here on nothing is missed.

    Attributes:
        last_id: the newest event that there is, of any prompt; 0 for none.
    """

    type: Literal["ready"] = "ready"
    tenant_id: str
    prompt_id: str
    last_id: int

    def to_json(self) -> bytes:
        """Return it as compact JSON in UTF-8."""
        return orjson.dumps(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMissed:
    """Events that a subscriber should have got may be gone.

    Attributes:
        id: its number, if it stands for events that never got one.
        after, before: between which ids they were; None for open.
        count: how many there were, if that is known.
    """

    id: int = 0
    type: Literal["missed"] = "missed"
    reason: MissedReason
    after: int | None = None
    before: int | None = None
    count: int | None = None

    def to_json(self) -> bytes:
        """Return it as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)


LiveFrame = LiveReady | LiveSelection | LiveMissed


def numbered(body: bytes, number: int) -> bytes:
    """Return an event's JSON with its number.

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
            return {k: v for k, v in members if k != "id" or v}
        case LiveStats() | LivePosition():
            return {name: getattr(value, name) for name in value.__slots__}
    raise TypeError
