"""Responses of the policy `sillytavern`: the texts by position, and the ledger of the scan.

Slotted dataclasses and named tuples, as in `model/decision.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Self

import orjson

from lorewell.model.activate import ForcedEntry
from lorewell.model.decision import SnapshotItem
from lorewell.model.macro_values import VariableScope
from lorewell.model.warning import MacroProblem, TurnWarning

State = Literal["stop", "initial", "recursion", "min_activations"]

Activation = Literal[
    "decorator_activate",
    "external",
    "constant",
    "sticky",
    "primary",
    "and_any",
    "not_all",
    "not_any",
    "and_all",
]
EventKind = (
    Activation
    | MacroProblem
    | Literal[
        "loop",
        "disabled",
        "trigger_filter",
        "character_filter",
        "tag_filter",
        "delay",
        "cooldown",
        "delay_until_recursion",
        "delay_level",
        "exclude_recursion",
        "decorator_suppress",
        "no_keys",
        "primary_then_secondary",
        "secondary_unsatisfied",
        "regex_timeout",
        "regex_unsupported",
        "group_lost_to_sticky",
        "group_cooldown_removed",
        "group_lost_score",
        "group_prio_winner",
        "group_roll_winner",
        "group_lost",
        "group_already_active",
        "group_taken",
        "group_mistaken",
        "probability_passed",
        "probability_failed",
        "added",
        "budget_overflow",
        "budget_refused",
        "min_activations_advance",
        "min_activations_out_of_depth",
        "next_delay_level",
        "max_recursion_steps",
        "empty_content",
        "timed_removed",
    ]
)
HitIn = Literal[
    "message",
    "persona_description",
    "character_description",
    "character_personality",
    "character_depth_prompt",
    "scenario",
    "creator_notes",
    "prompt",
    "recursion",
]


class Hit(NamedTuple):
    """Where a key was found.

    Attributes:
        text: the kind of text.
        number: index into the request's `chat` or `prompts`; for recursion, the loop whose entries
            were scanned; None for other texts.
        span: half-open, in code points of the scanned text.
        woken_by: the entry whose content holds the key, as `book.uid`.
    """

    text: HitIn
    number: int | None
    span: tuple[int, int]
    woken_by: str | None = None


class Event(NamedTuple):
    """An event of a scan. Members that do not apply are None, and left out of the JSON.

    Attributes:
        loop: the loop, from 1; 0 before the first one.
        kind: what happened.
        entry: the entry, as `book.uid`.
        key: the key as written; a secondary key with macros expanded.
        hit: where the key was found.
        group: name of the inclusion group.
        winner: the entry that this one lost to.
        score: number of keys of the entry that were found.
        best: highest score in the group.
        roll: the probability roll in percent, or the group roll between 0 and the total weight.
        threshold: the value that the roll had to be at or below.
        tokens: tokens used so far, this entry included.
        limit: the budget in tokens.
        number: a loop, depth, delay level or count of active entries, depending on the kind.
        timer: the timed effect that ended.
        why: why it ended.
        macro: the macro whose value is missing, or that exceeds a limit.
    """

    loop: int
    kind: EventKind
    entry: str | None = None
    key: str | None = None
    hit: Hit | None = None
    group: str | None = None
    winner: str | None = None
    score: int | None = None
    best: int | None = None
    roll: float | None = None
    threshold: float | None = None
    tokens: int | None = None
    limit: int | None = None
    number: float | None = None
    timer: Literal["sticky", "cooldown"] | None = None
    why: Literal["chat_not_advanced", "missing_entry", "not_configured", "expired"] | None = None
    macro: TurnWarning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop of a scan. Entries are given as `book.uid`.

    Attributes:
        state: why the loop ran.
        next: why the next loop runs; `stop` if none does.
        candidates: entries left after the inclusion groups, in the order of processing.
        successful: candidates that passed their probability, also if the budget dropped them.
        active: number of active entries after the loop.
        overflowed: whether the budget was exceeded.
        level: recursion delay level after the loop.
    """

    state: State
    next: State
    candidates: tuple[str, ...]
    successful: tuple[str, ...]
    active: int
    overflowed: bool
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedEntry:
    """An active entry.

    Attributes:
        id: the entry, as `book.uid`.
        book: name of its book.
        uid: its uid in the book.
        content: its text with macros expanded.
        order: its insertion order.
        position: its position as SillyTavern's number, 0 to 7.
        reason: what activated it.
        key: the key that matched, if a key activated it.
        hit: where the key was found.
        loop: the loop that activated it, from 1.
    """

    id: str
    book: str
    uid: object
    content: str
    order: float | None
    position: int | None
    reason: Activation
    key: str | None
    hit: Hit | None
    loop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one entry.

    Attributes:
        id: the entry, as `book.uid`.
        activated: whether the entry is active.
        reason: kind of the last event that decided on it; `not_triggered` if none did.
        loop: the loop of that event.
        ignored_rules: rules of the policy `native` that the entry has and this policy ignores.
    """

    id: str
    activated: bool
    reason: EventKind | Literal["not_triggered"]
    loop: int
    ignored_rules: tuple[str, ...] = ()


class ExampleEntry(NamedTuple):
    """A text before or after the example messages.

    Attributes:
        position: 0 before the example messages, 1 after them.
        content: the text.
    """

    position: Literal[0, 1]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthGroup:
    """Texts for one depth and role of the chat.

    Attributes:
        depth: number of chat messages that follow, as written in the first entry.
        role: as written in the first entry: 0 system, 1 user, 2 assistant.
        entries: the texts in order.
        has_depth: whether the first entry has a depth; if not, `depth` is null.
    """

    depth: object
    role: object
    entries: tuple[str, ...]
    has_depth: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFigures:
    """The token budget of a scan. All counts are 0 if the books have no entry.

    Attributes:
        limit: the budget in tokens; null if the scan ended before it was computed.
        used: tokens of the active entries' contents.
        overflowed: whether the budget was exceeded.
        tokenizer: the tokenizer that counted.
    """

    limit: int | None
    used: int
    overflowed: bool
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorEntry:
    """An entry that vector search found and activated.

    Attributes:
        id: the entry, as `book.uid`.
        rank: rank of its content, from 1; entries with equal content share a rank.
        similarity: cosine similarity to the query, to six digits.
    """

    id: str
    rank: int
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsUsed:
    """The outcome of a vector search.

    Attributes:
        entries: the found entries, best first.
        degraded: why the search was incomplete: `vector_disabled`, `embedding_unavailable`, or
            `index_not_ready:…` for each book with entries to search and no index, and
            `index_partial:…` if its index lacks changed texts. The other books were searched.
        embedding_version: the embedding model that was used.
    """

    entries: tuple[VectorEntry, ...]
    degraded: tuple[str, ...]
    embedding_version: str | None

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return asdict(self)

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        return cls(
            entries=tuple(VectorEntry(**each) for each in members["entries"]),
            degraded=tuple(members["degraded"]),
            embedding_version=members["embedding_version"],
        )


ContinuedState = Literal["given", "kept", "none", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """The timed state that a turn of a conversation started from.

    Attributes:
        conversation_id: the conversation.
        state: `given` in the request, `kept` from an earlier turn, `none` before the first one, or
            `lost`: no line of the request could be placed in the conversation.
        kept_after: number of messages of the chat when the kept state was stored.
    """

    conversation_id: str
    state: ContinuedState
    kept_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernResponse:
    """The response to a SillyTavernRequest.

    Attributes:
        activated: the active entries, in the order of activation.
        world_info_before: the text before the character material.
        world_info_after: the text after the character material.
        examples: texts before and after the example messages.
        depth_groups: texts to insert into the chat, by depth and role.
        authors_note_top: texts before the author's note.
        authors_note_bottom: texts after the author's note.
        outlets: texts by the name of their outlet.
        authors_note: the author's note with entries merged in; null if it is not inserted this
            turn.
        timed_state: send it as `timed_state` of the next turn of this chat.
        variables: send them as `variables` of the next turn of this chat; the global ones belong
            to the user.
        chat_hash: send it as `macros.chat_hash` of the next turn of this chat; null if no macro
            asked for it.
        banned: words that macros banned from the reply, in order.
        forced: forced entries that stay queued for the next scan.
        budget: the token budget.
        draws_used: number of random numbers used.
        loops: the loops of the scan; only with `explain: "full"`.
        events: the events of the scan; only with `explain: "full"`.
        verdicts: the outcome of each entry; only with `explain: "full"`.
        snapshot: the stored revisions that were used.
        conversation: the timed state that the turn started from, if the request names a
            conversation.
        vectors: the outcome of the vector search, if the request asks for one.
        warnings: what the caller may not expect: macros without a value, and
            members of the scene without effect.
        policy_version: version of the rules; it changes when they change results.
    """

    activated: tuple[ActivatedEntry, ...]
    world_info_before: str
    world_info_after: str
    examples: tuple[ExampleEntry, ...]
    depth_groups: tuple[DepthGroup, ...]
    authors_note_top: tuple[str, ...]
    authors_note_bottom: tuple[str, ...]
    outlets: Mapping[str, tuple[str, ...]]
    authors_note: str | None
    timed_state: Mapping[str, Mapping[str, Mapping[str, object]]]
    forced: tuple[ForcedEntry, ...]
    budget: BudgetFigures
    draws_used: int
    variables: Mapping[VariableScope, Mapping[str, str | float]] = field(default_factory=dict)
    chat_hash: int | None = None
    banned: tuple[str, ...] = ()
    warnings: tuple[TurnWarning, ...] = ()
    loops: tuple[Loop, ...] = ()
    events: tuple[Event, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    snapshot: tuple[SnapshotItem, ...] = ()
    conversation: Continued | None = None
    vectors: VectorsUsed | None = None
    policy_version: str

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


class ReplayedEntry(NamedTuple):
    """An active entry of a replayed turn.

    Attributes:
        id: the entry, as `book.uid`.
        reason: what activated it.
        key: the key that matched, if a key activated it.
        hit: where the key was found.
        loop: the loop that activated it, from 1.
    """

    id: str
    reason: Activation
    key: str | None
    hit: Hit | None
    loop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTurn:
    """A turn of a replay.

    A scan of its messages with its seed and the previous turn's state gives the same result.

    Attributes:
        messages: number of chat messages.
        seed: seed of the random numbers.
        activated: the active entries, in the order of activation.
        timed_state: the state after the turn.
        variables: the variables after the turn.
        chat_hash: the hash of the chat; null if no macro asked for it.
        budget: the token budget.
        draws_used: number of random numbers used.
    """

    messages: int
    seed: str
    activated: tuple[ReplayedEntry, ...]
    timed_state: Mapping[str, Mapping[str, Mapping[str, object]]]
    budget: BudgetFigures
    draws_used: int
    variables: Mapping[VariableScope, Mapping[str, str | float]] = field(default_factory=dict)
    chat_hash: int | None = None

    def to_json(self) -> bytes:
        """Return the turn as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResponse:
    """The response to a ReplayRequest.

    Attributes:
        turns: oldest first.
        rest_from: null if the replay is complete; otherwise `from_messages` of the request for the
            rest, which also needs the last turn's `timed_state`, `variables` and `chat_hash`.
        snapshot: the stored revisions that were used.
        policy_version: version of the rules; it changes when they change results.
    """

    turns: tuple[ReplayedTurn, ...]
    rest_from: int | None
    snapshot: tuple[SnapshotItem, ...]
    policy_version: str

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


def _encode(value: object) -> object:
    if isinstance(value, Event | Hit | TurnWarning):
        named = zip(value._fields, value, strict=True)
        return {name: fact for name, fact in named if fact is not None}
    if isinstance(value, ExampleEntry | ReplayedEntry):
        return value._asdict()
    if isinstance(value, ForcedEntry):
        return orjson.Fragment(value.model_dump_json())  # it may hold integers of any size
    raise TypeError
