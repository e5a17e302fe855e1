"""What the policy `replica` is asked with and what it answers, in that program's own terms.

Source: docs/rules/replica.md §1.1, §6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import orjson
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from lorewell.model.base import Bounded
from lorewell.model.decision import SnapshotItem
from lorewell.model.preview import ChangedBook
from lorewell.model.select import Explain
from lorewell.model.text import (
    Identifier,
    Integer,
    Name,
    StateObject,
    Text,
    WholeText,
    canonical_json,
    check_json,
    fault,
)

POLICY_VERSION = "replica/1"
MAX_BOOKS = 100
MAX_HISTORY = 10_000
MAX_CHANGED = 20

Trigger = Literal["constant", "keyword", "condition", "rag", "logic", "dependency"]
TRIGGERS: tuple[Trigger, ...] = (
    *("constant", "keyword", "condition", "rag", "logic", "dependency"),
)
Source = Literal["global", "character"]
ReplicaReason = Literal[
    "constant",
    "keyword",
    "condition",
    "rag",
    "logic",
    "dependency",
    "disabled",
    "no_trigger",
    "not_triggered",
    "probability",
    "dependency_unavailable",
    "conflict",
]
WarningCode = Literal[
    "book_not_found",
    "book_broken",
    "entry_broken",
    "position_changed",
    "trigger_broken",
    "condition_unreadable",
    "rag_unavailable",
    "dependency_unavailable",
    "macro_unknown",
]


class _Foreign(Bounded):
    """A value of a foreign protocol: members that we do not know are passed over."""

    model_config = ConfigDict(extra="ignore", validate_by_name=True)


def _with_nulls(schema: dict[str, Any]) -> None:
    """Tell in a JSON schema that every member may be null."""
    for name, member in schema["properties"].items():
        kinds = member.get("anyOf", [{k: v for k, v in member.items() if k != "default"}])
        if {"type": "null"} not in kinds:
            kinds = [*kinds, {"type": "null"}]
        told = {"default": member["default"]} if "default" in member else {}
        schema["properties"][name] = {"anyOf": kinds, **told}


class _Nullable(_Foreign):
    """A value of a foreign protocol in which a member that is null counts as missing."""

    model_config = ConfigDict(json_schema_extra=_with_nulls)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:  # noqa: ANN401  sees anything
        if isinstance(value, dict):
            return {name: member for name, member in value.items() if member is not None}
        return value


def _text_of(value: Any) -> Any:  # noqa: ANN401  a pydantic validator sees anything
    """Return the text of a message that is an object."""
    if isinstance(value, dict):
        said = value.get("mes")
        return value.get("content") if said is None else said
    return value


_MESSAGE_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "description": "A message with its text in `mes`, or else in `content`.",
            "properties": {"mes": {"type": ["string", "null"]}},
        },
    ]
}


_Message = Annotated[WholeText, BeforeValidator(_text_of), WithJsonSchema(_MESSAGE_SCHEMA)]


def _check_books(books: dict[str, Any]) -> dict[str, Any]:
    check_json(books)
    return books


class ReplicaBookRef(_Foreign):
    """A book that is named in a request; without an id its name stands for it.

    `revision` counts for a stored book; without it, it is its latest one.
    """

    id: Name | None = None
    name: Name | None = None
    revision: Annotated[Integer, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if not self.id and not self.name:
            raise fault("/id", "must be given")
        return self

    @property
    def key(self) -> str:
        """What the book is looked up by."""
        return self.id or self.name or ""


class WorldBookData(_Nullable):
    """Which books apply: those for everybody, and the one of the character."""

    global_books: Annotated[tuple[ReplicaBookRef, ...], Field(max_length=MAX_BOOKS)] = Field(
        default=(), alias="globalBooks"
    )
    character_book_id: Name | None = Field(default=None, alias="characterBookId")


class DynamicTable(_Nullable):
    """The table that conditions look at."""

    current_values: StateObject = Field(default_factory=dict, alias="currentValues")


class ReplicaRequest(_Nullable):
    """One turn of the policy `replica`.

    Attributes:
        mes: what the user says now.
        chat_history: what was said before, oldest first, without `mes`; an item may be an object
            with `mes` or `content`.
        seed: chance is made from it and the entry's uid.
        char, user: what `{{char}}` and `{{user}}` stand for.
        books: books by their ids, as their files have them; they win over stored ones.
        prompt_id: in the service, the books bound to this prompt come first, as global ones.
        explain: `full` decisions on every entry, `selected` on active ones, or `none`.
    """

    world_book_data: WorldBookData = Field(default_factory=WorldBookData, alias="worldBookData")
    mes: WholeText = ""
    chat_history: Annotated[tuple[_Message, ...], Field(max_length=MAX_HISTORY)] = Field(
        default=(), alias="chatHistory"
    )
    dynamic_table_data: DynamicTable = Field(default_factory=DynamicTable, alias="dynamicTableData")
    seed: Annotated[Text, Field(max_length=200)] = "0"
    char: Annotated[Text, Field(max_length=500)] | None = None
    user: Annotated[Text, Field(max_length=500)] | None = None
    books: Annotated[dict[str, Any], BeforeValidator(_check_books)] = Field(default_factory=dict)
    prompt_id: Annotated[Identifier, Field(min_length=1, max_length=200)] | None = None
    explain: Explain = "full"


class ReplicaPreview(ReplicaRequest):
    """A ReplicaRequest of which stored books may have entries changed, added or removed.

    Attributes:
        changed: of books that the turn has anyway; without a revision, of the one that it has.
    """

    changed: Annotated[tuple[ChangedBook, ...], Field(max_length=MAX_CHANGED)] = ()


class ReplicaFacts(NamedTuple):
    """The figures behind a verdict; what does not apply is None, and left out of the JSON.

    Attributes:
        keys: the keys that were found, as written.
        found_in: whose text they were found in: the user's, that of the history, or both.
        message: where the first was found: an index into the history; None in the user's text.
        span: the hit, half-open, in code points of that text.
        condition: the first condition that does not hold; of an active entry None.
        value: what its field was, or "missing".
        similarity, threshold: how near the entry was, and how near it had to be.
        rank, top_k: its place among the entries of its book, from 1, and the last that counts.
        roll, needed: what was rolled, and what the roll had to stay below.
        winner: uid of the entry that holds the label.
        label: the label that both are in.
        required_by: uid of the entry that brought it in.
        missing: uid of the entry that it requires and does not get.
    """

    keys: tuple[str, ...] | None = None
    found_in: Literal["user", "history", "both"] | None = None
    message: int | None = None
    span: tuple[int, int] | None = None
    condition: str | None = None
    value: str | None = None
    similarity: float | None = None
    threshold: float | None = None
    rank: int | None = None
    top_k: int | None = None
    roll: float | None = None
    needed: float | None = None
    winner: str | None = None
    label: str | None = None
    required_by: str | None = None
    missing: str | None = None


NO_REPLICA_FACTS = ReplicaFacts()
_EMPTY: dict[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDecision:
    """The verdict on one entry, in the order of collection.

    Attributes:
        reason: the trigger that fired, or why the entry is not active.
        detail: in words, what each of its triggers lacked.
    """

    book_id: str
    uid: str
    active: bool
    reason: ReplicaReason
    detail: str | None = None
    facts: ReplicaFacts = NO_REPLICA_FACTS


class ReplicaWarning(NamedTuple):
    """Something that went another way than its author may think."""

    code: WarningCode
    message: str
    book_id: str | None = None
    uid: str | None = None


class Suppressed(NamedTuple):
    """An entry that lost to another one of its group."""

    uid: str
    winner: str
    label: str
    book_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionCount:
    """How many active entries have a position."""

    position: int
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStats:
    """What was activated, counted; positions ascending, triggers in their order, no zeros."""

    total: int
    by_position: tuple[PositionCount, ...]
    by_trigger: Mapping[Trigger, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaActive:
    """An active entry: what it is after normalisation, and how it got in.

    Attributes:
        content: its text with macros filled in.
        position: where it goes, 0 to 7.
        trigger_config: as it is in its file, or derived.
        depth: at position 6, messages of the history from its end.
        role: at position 6: 0 system, 1 user, 2 assistant.
        group: its labels; None if it has none.
    """

    uid: str
    content: str
    position: int
    order: int
    trigger_config: Mapping[str, Any]
    comment: str
    disable: bool
    probability: float
    depth: int
    role: int
    group: tuple[str, ...] | None
    group_weight: Annotated[float, Field(alias="groupWeight")]
    requires: tuple[str, ...]
    trigger_type: Trigger
    position_label: str
    book_id: str
    source: Source


class LoadedBook(NamedTuple):
    """A book of the turn."""

    id: str
    name: str
    source: Source
    entry_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaResponse:
    """The answer to a ReplicaRequest.

    Attributes:
        entries: the active ones, sorted by position, order, and place of collection.
        suppressed: who lost to whom.
        unplaced: uids of active entries that replace a macro, and have no place by themselves.
        books: those that were there, in the order of collection.
        decisions: in the order of collection.
        snapshot: the stored revisions that were used, for callers to fill in.
        activation_id: for callers that keep turns to fill in; its ledger can be had by it.
    """

    entries: tuple[ReplicaActive, ...]
    stats: ReplicaStats
    warnings: tuple[ReplicaWarning, ...]
    suppressed: tuple[Suppressed, ...]
    unplaced: tuple[str, ...]
    books: tuple[LoadedBook, ...]
    decisions: tuple[ReplicaDecision, ...] = ()
    snapshot: tuple[SnapshotItem, ...] = ()
    activation_id: str | None = None
    policy_version: str = POLICY_VERSION

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        members = {name: getattr(self, name) for name in self.__slots__}
        members["entries"] = [_written(entry) for entry in self.entries]
        return orjson.dumps(members, default=_encode)

    def message(self) -> bytes:
        """Return the message `worldbook_active` for a front end, as compact JSON in UTF-8.

        It is sent even if it holds nothing, so that a panel is cleared.

        Source: docs/rules/replica.md §6.2.
        """
        entries = [_written(entry) for entry in self.entries]
        return orjson.dumps({"type": "worldbook_active", "entries": entries})


def _written(entry: ReplicaActive) -> dict[str, object]:
    """Return an entry as it is written: under that program's names."""
    members = {name: getattr(entry, name) for name in entry.__slots__}
    members["groupWeight"] = members.pop("group_weight")
    # It is as in its file, and so may hold integers of any size.
    members["trigger_config"] = orjson.Fragment(canonical_json(entry.trigger_config))
    return members


def _encode(value: object) -> object:
    if value is NO_REPLICA_FACTS:  # those of most decisions
        return _EMPTY
    match value:
        case ReplicaFacts() | ReplicaWarning():
            named = zip(value._fields, value, strict=True)
            return {name: fact for name, fact in named if fact is not None}
        case Suppressed() | LoadedBook():
            return value._asdict()
    raise TypeError
