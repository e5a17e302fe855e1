"""Whole chats under any policy: what goes in turn by turn, what changes, what a budget buys.

Slotted dataclasses, not pydantic models: a chat of many turns makes thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import orjson
from pydantic.json_schema import SkipJsonSchema

from lorewell.model.binding import Policy
from lorewell.model.decision import SnapshotItem
from lorewell.model.entry import Role


class SpokenLine(NamedTuple):
    """A message of a chat.

    Attributes:
        role: who wrote it.
        name: its author's name; empty if unknown.
        content: its text.
    """

    role: Role
    name: str
    content: str


class EntryKey(NamedTuple):
    """An entry of a replay, the same in all revisions of its book.

    Attributes:
        book: number of its book in the replay, from 0.
        entry_id: its id in the book; under SillyTavern's rules its uid.
    """

    book: int
    entry_id: str


class EntryUse(NamedTuple):
    """An entry that goes into a turn.

    Attributes:
        book: number of its book.
        entry_id: its id in the book.
        reason: why it is in, in the words of its policy.
        tokens: its cost. Under `native` with its wrapper, otherwise that of its text.
        found: whether one of its keys is in the messages of the turn.
    """

    book: int
    entry_id: str
    reason: str
    tokens: int
    found: bool

    @property
    def key(self) -> EntryKey:
        """The entry."""
        return EntryKey(self.book, self.entry_id)


class RefusedEntry(NamedTuple):
    """An entry that was activated and found no place.

    Attributes:
        book: number of its book.
        entry_id: its id in the book.
        reason: why it stayed out.
        tokens: what it and its requirements would have added; null if tokens did not decide.
        room: the tokens that were left; null if tokens did not decide.
    """

    book: int
    entry_id: str
    reason: str
    tokens: int | None
    room: int | None

    @property
    def key(self) -> EntryKey:
        """The entry."""
        return EntryKey(self.book, self.entry_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """A turn of a chat.

    Attributes:
        messages: number of messages of the chat.
        seed: seed of the turn.
        used: the entries that go in.
        entered: those that were not in the turn before.
        left: those that were in the turn before and are not any more.
        refused: entries that were activated and found no place; only under `native`.
        tokens: tokens of all entries that go in.
        limit: the token budget; null if the policy has none.
        room: the tokens that are left; null if the policy has no budget.
        failed: code of the error that the turn ends with; null if it has none.
        warnings: codes of the warnings of the turn, each once.
    """

    messages: int
    seed: str
    used: tuple[EntryUse, ...]
    entered: tuple[EntryKey, ...] = ()
    left: tuple[EntryKey, ...] = ()
    refused: tuple[RefusedEntry, ...] = ()
    tokens: int
    limit: int | None
    room: int | None
    failed: str | None = None
    warnings: tuple[str, ...] = ()
    # Not part of the JSON: the texts of the entries that go in, and in the last turn, why the other
    # entries are not in.
    texts: Annotated[Mapping[EntryKey, str], SkipJsonSchema()] = field(default_factory=dict)
    why: Annotated[Mapping[EntryKey, str], SkipJsonSchema()] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the turn as compact JSON in UTF-8."""
        sent = (name for name in self.__slots__ if name not in {"texts", "why"})
        members = {name: getattr(self, name) for name in sent}
        return orjson.dumps(members, default=_encode)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStory:
    """An entry over a whole chat.

    Attributes:
        book: number of its book.
        entry_id: its id in the book.
        title: its title.
        turns: number of turns that it is in.
        first: number of messages of the first of them; None if it is in none.
        longest_silence: most turns in a row that it is out, between two that it is in.
        tokens: its cost over all turns.
        found: number of turns that it is in with one of its keys in the messages.
        refused: number of turns in which it was activated and found no place.
        why: for an entry that is in no turn: the reason it found no place most often, otherwise
            the reason in the last turn.
    """

    book: int
    entry_id: str
    title: str
    turns: int
    first: int | None
    longest_silence: int
    tokens: int
    found: int
    refused: int
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReplay:
    """A chat turn by turn.

    Attributes:
        policy: the policy.
        steps: the turns, oldest first.
        entries: every entry of the books, in their order.
        warnings: the codes of all warnings, with the number of turns that have them.
        rest_from: null if the replay is complete; otherwise `from_messages` of the request for the
            rest.
        snapshot: the stored revisions that were used.
    """

    policy: Policy
    steps: tuple[ReplayStep, ...]
    entries: tuple[EntryStory, ...]
    warnings: Mapping[str, int]
    rest_from: int | None = None
    snapshot: tuple[SnapshotItem, ...] = ()

    def to_json(self) -> bytes:
        """Return the replay as compact JSON in UTF-8."""
        members = {name: getattr(self, name) for name in self.__slots__}
        members["steps"] = [orjson.Fragment(step.to_json()) for step in self.steps]
        return orjson.dumps(members)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChange:
    """A turn that is different on the second side.

    Attributes:
        messages: number of messages of the chat.
        joined: entries that are only in on the second side.
        dropped: entries that are only in on the first side.
        edited: entries that are in on both sides with different texts.
        tokens: tokens of the second side less those of the first.
    """

    messages: int
    joined: tuple[EntryKey, ...]
    dropped: tuple[EntryKey, ...]
    edited: tuple[EntryKey, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """An entry whose turns are different on the second side.

    Attributes:
        book: number of its book.
        entry_id: its id in the book.
        title: its title on the second side, if it is there.
        joined: number of turns that it is only in on the second side.
        dropped: number of turns that it is only in on the first side.
        edited: number of turns that it is in with another text.
    """

    book: int
    entry_id: str
    title: str
    joined: int
    dropped: int
    edited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDiff:
    """The same chat on two sides.

    Attributes:
        turns: number of turns.
        changed: the turns that are different, oldest first.
        entries: the entries that are different, the most affected first.
        tokens: tokens of all turns on the second side less those of the first.
        summary: all of it in a line.
    """

    turns: int
    changed: tuple[TurnChange, ...]
    entries: tuple[EntryChange, ...]
    tokens: int
    summary: str

    def to_json(self) -> bytes:
        """Return the difference as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCount:
    """An entry with a number of turns.

    Attributes:
        book: number of its book.
        entry_id: its id in the book.
        title: its title.
        turns: number of turns.
    """

    book: int
    entry_id: str
    title: str
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """A token budget at which the chat changes.

    Attributes:
        budget: the lowest budget with this result; the next step ends it.
        uses: number of entries that go in, over all turns.
        tokens: their tokens over all turns.
        fullest: tokens of the fullest turn.
        failed: number of turns that a required entry makes fail.
        joined: entries that are in more turns than at the step below.
        dropped: entries that are in fewer turns than at the step below.
    """

    budget: int
    uses: int
    tokens: int
    fullest: int
    failed: int
    joined: tuple[EntryCount, ...]
    dropped: tuple[EntryCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan:
    """What each entry costs over a chat, and what other budgets would change.

    Attributes:
        policy: the policy.
        turns: number of turns.
        budget: the budget of the request; None if the policy has none that is known.
        entries: every entry that is in or was refused, the most expensive first.
        idle: entries that cost tokens although none of their keys is in the messages of any turn:
            only `constant` or `required` brings them in. Entries without keys are not among them.
        curve: the steps from the lowest budget to the highest, exactly; empty unless the policy is
            `native`. At most `MAX_CURVE` steps, those nearest to the budget.
        cut: number of steps that are left out.
    """

    policy: Policy
    turns: int
    budget: int | None
    entries: tuple[EntryStory, ...]
    idle: tuple[EntryCount, ...]
    curve: tuple[PlanStep, ...]
    cut: int

    def to_json(self) -> bytes:
        """Return the plan as compact JSON in UTF-8."""
        return orjson.dumps(self)


def _encode(value: object) -> object:
    if isinstance(value, EntryKey | EntryUse | RefusedEntry):
        return value._asdict()
    raise TypeError
