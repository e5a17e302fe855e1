"""What the policy `sillytavern` answers: where every text goes, and why each thing happened.

Slotted dataclasses and named tuples, as in `model/decision.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson

from lorewell.model.activate import ForcedEntry
from lorewell.model.decision import SnapshotItem

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
        text: which kind of text.
        number: index into the request's `chat` or `prompts`; of recursion, the loop whose entries
            were the text; None for the other texts.
        span: half-open, in code points of the text as it was scanned.
        woken_by: the entry whose content it was found in.
    """

    text: HitIn
    number: int | None
    span: tuple[int, int]
    woken_by: str | None = None


class Event(NamedTuple):
    """One thing that happened in a scan; what does not apply is None, and left out of the JSON.

    Attributes:
        loop: the loop that it happened in, from 1; 0 before the first.
        kind: what happened.
        entry: "book.uid".
        key: the key as written; of a secondary key, with its macros expanded.
        hit: where the key was found.
        group: name of the inclusion group.
        winner: the entry that another one lost to.
        score, best: keys found, and the most that a member of the group found.
        roll: of an entry's probability in percent; of a group, between 0 and its weight.
        threshold: what the roll had to stay at or below.
        tokens: counted so far, this entry among them.
        limit: the budget in tokens.
        number: of loop, of entries active, of depth or of level, as the kind has it.
        timer, why: which timed effect ended, and why.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop of a scan; entries as "book.uid".

    Attributes:
        candidates: what was left after the groups, in the order of processing.
        successful: candidates that did not fail their probability; those dropped for the budget
            are among them.
        active: how many entries are active after it.
        level: of delayed entries, as it stands after it.
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
        id: "book.uid".
        content: with its macros expanded.
        reason: what made it a candidate.
        key, hit: what was found, and where, if a key did it.
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
    """What became of one entry of the books, in one word.

    Attributes:
        reason: the kind of the last event that decided about it, "not_triggered" if none did.
        ignored_rules: rules of ours that the entry has and this policy does not know.
    """

    id: str
    activated: bool
    reason: EventKind | Literal["not_triggered"]
    loop: int
    ignored_rules: tuple[str, ...] = ()


class ExampleEntry(NamedTuple):
    """A text before (0) or after (1) the example messages."""

    position: Literal[0, 1]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthGroup:
    """Texts that go into the chat at one depth and role.

    Attributes:
        has_depth: False where the first entry had no depth at all; `depth` is then None.
    """

    depth: object
    role: object
    entries: tuple[str, ...]
    has_depth: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFigures:
    """Figures in tokens; all 0 where the books held no entry.

    Attributes:
        limit: None where the scan ended before it had one.
        used: the contents of the active entries.
    """

    limit: int | None
    used: int
    overflowed: bool
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorEntry:
    """An entry that vectors found, and so activated from outside.

    Attributes:
        id: "book.uid".
        rank: of its content, from 1; entries of equal content share one.
        similarity: a cosine, to six digits.
    """

    id: str
    rank: int
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsUsed:
    """What vectors found, or why they found nothing.

    Attributes:
        entries: best first.
        degraded: `vector_disabled`, `embedding_unavailable`, or `index_not_ready:…` for each book
            that has entries to be found and no index; the other books were searched.
    """

    entries: tuple[VectorEntry, ...]
    degraded: tuple[str, ...]
    embedding_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """Which timed state a turn of a conversation began with.

    Attributes:
        state: the request's own, one that was kept, or none.
        kept_after: how many messages the chat had when the kept one was made.
    """

    conversation_id: str
    state: Literal["given", "kept", "none"]
    kept_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernResponse:
    """The answer to a SillyTavernRequest.

    Attributes:
        activated: in the order of activation.
        authors_note: with the entries merged in; None if it is not inserted this turn.
        timed_state: for the next turn of this chat.
        forced: what stays queued for the next scan.
        draws_used: how many random numbers were drawn.
        loops, events, verdicts: the ledger; under `explain: "full"` alone.
        snapshot: the stored revisions that were used, for callers to fill in.
        conversation: for callers that keep timed state to fill in.
        vectors: for callers that have some to fill in.
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
    loops: tuple[Loop, ...] = ()
    events: tuple[Event, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    snapshot: tuple[SnapshotItem, ...] = ()
    conversation: Continued | None = None
    vectors: VectorsUsed | None = None
    policy_version: str = "sillytavern/1.18.0"

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


class ReplayedEntry(NamedTuple):
    """An active entry of a replayed turn; its members are those of `ActivatedEntry`."""

    id: str
    reason: Activation
    key: str | None
    hit: Hit | None
    loop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTurn:
    """One turn of a replay. With its messages, seed and the state before, it can be asked again.

    Attributes:
        messages: how many messages of the chat there were.
        seed: what its random numbers were made from.
        activated: in the order of activation.
        timed_state: after it.
    """

    messages: int
    seed: str
    activated: tuple[ReplayedEntry, ...]
    timed_state: Mapping[str, Mapping[str, Mapping[str, object]]]
    budget: BudgetFigures
    draws_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResponse:
    """The answer to a ReplayRequest.

    Attributes:
        turns: oldest first.
        rest_from: where the answer ends before the chat does: the `from_messages` with which to
            ask for the rest, beginning with the last turn's `timed_state`.
    """

    turns: tuple[ReplayedTurn, ...]
    rest_from: int | None
    snapshot: tuple[SnapshotItem, ...]
    policy_version: str = "sillytavern/1.18.0"

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        return orjson.dumps(self, default=_encode)


def _encode(value: object) -> object:
    if isinstance(value, Event | Hit):
        named = zip(value._fields, value, strict=True)
        return {name: fact for name, fact in named if fact is not None}
    if isinstance(value, ExampleEntry | ReplayedEntry):
        return value._asdict()
    if isinstance(value, ForcedEntry):
        return orjson.Fragment(value.model_dump_json())  # it may hold integers of any size
    raise TypeError
