"""Requests and responses of the policy `replica`, in SillyTavern_replica's own terms.

Source: docs/rules/replica.md §1.1, §6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from lorewell.model.base import Bounded
from lorewell.model.decision import SnapshotItem
from lorewell.model.descriptions import describe_model
from lorewell.model.preview import ChangedBook
from lorewell.model.scene import Scene
from lorewell.model.scene_fields import check_scene
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
    "value_missing",
    "scene_unused",
]


class _Foreign(Bounded):
    """A value of a foreign protocol: unknown members are ignored."""

    model_config = ConfigDict(extra="ignore", validate_by_name=True)


def _allow_nulls(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Change a JSON schema so that every member may be null; then describe it."""
    for name, member in schema["properties"].items():
        kinds = member.get("anyOf", [{k: v for k, v in member.items() if k != "default"}])
        if {"type": "null"} not in kinds:
            kinds = [*kinds, {"type": "null"}]
        default = {"default": member["default"]} if "default" in member else {}
        schema["properties"][name] = {"anyOf": kinds, **default}
    describe_model(schema, model)


class _Nullable(_Foreign):
    """A value of a foreign protocol: members that are null count as missing."""

    model_config = ConfigDict(json_schema_extra=_allow_nulls)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:  # noqa: ANN401  any input
        if isinstance(value, dict):
            return {name: member for name, member in value.items() if member is not None}
        return value


def _text_of(value: Any) -> Any:  # noqa: ANN401  any input of a pydantic validator
    """Return the text of a message that is an object; any other value as it is."""
    if isinstance(value, dict):
        text = value.get("mes")
        return value.get("content") if text is None else text
    return value


_MESSAGE_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "description": "A message with its text in `mes` or, if that is null, in `content`.",
            "properties": {"mes": {"type": ["string", "null"]}},
        },
    ]
}


_Message = Annotated[WholeText, BeforeValidator(_text_of), WithJsonSchema(_MESSAGE_SCHEMA)]


def _check_books(books: dict[str, Any]) -> dict[str, Any]:
    check_json(books)
    return books


class ReplicaBookRef(_Foreign):
    """A book of a request, by id or by name.

    Attributes:
        id: the book's id.
        name: the book's name, which is used if there is no id.
        revision: revision of a stored book; null means the latest one.
    """

    id: Name | None = None
    name: Name | None = None
    revision: Annotated[Integer, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if not self.id and not self.name:
            raise fault("/id", "must be given, or name")
        return self

    @property
    def key(self) -> str:
        """The id or name that the book is looked up by."""
        return self.id or self.name or ""


class WorldBookData(_Nullable):
    """The books of a turn.

    Attributes:
        global_books: books that apply to every conversation, in order.
        character_book_id: id or name of the character's book.
        character_book_revision: revision of that book if it is stored; null means the latest one.
    """

    global_books: Annotated[tuple[ReplicaBookRef, ...], Field(max_length=MAX_BOOKS)] = Field(
        default=(), alias="globalBooks"
    )
    character_book_id: Name | None = Field(default=None, alias="characterBookId")
    character_book_revision: Annotated[Integer, Field(ge=1)] | None = Field(
        default=None, alias="characterBookRevision"
    )


class DynamicTable(_Nullable):
    """The table that conditions test.

    Attributes:
        current_values: values by field; at most 256 KiB as JSON.
    """

    current_values: StateObject = Field(default_factory=dict, alias="currentValues")


class ReplicaRequest(_Nullable):
    """A turn to select lore for, under the policy `replica`.

    Attributes:
        world_book_data: the books of the turn.
        mes: the current user input.
        chat_history: earlier messages, oldest first, without the current input; texts, or objects
            with `mes` or `content`.
        dynamic_table_data: the table that conditions test.
        seed: seed of the probability rolls.
        char: value of `{{char}}`; without it the macro stays.
        user: value of `{{user}}`; without it the macro stays.
        books: inline books by id, in the form of their files; they win over stored ones.
        prompt_id: in the service: also use the books bound to this prompt, before all others.
        explain: which decisions to return: `full` all, `selected` those on active entries, `none`
            none.
        scene: the turn in the form that all policies share. No value may be given here and in its
            own field.
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
    scene: Scene | None = None

    @model_validator(mode="after")
    def _check_scene(self) -> Self:
        check_scene(self, self.scene, "replica")
        return self


class ReplicaPreview(ReplicaRequest):
    """A ReplicaRequest with unsaved changes of stored books.

    Attributes:
        changed: changes of books that the turn uses; without a revision they apply to the one that
            the turn uses.
    """

    changed: Annotated[tuple[ChangedBook, ...], Field(max_length=MAX_CHANGED)] = ()


class ReplicaFacts(NamedTuple):
    """The facts behind a decision. Facts that do not apply are None, and left out of the JSON.

    Attributes:
        keys: the keys that matched, as written.
        found_in: where they matched: in the user's input, the history, or both.
        message: index into the history of the first match; absent for the user's input.
        span: the first match, half-open, in code points of its text.
        condition: the first condition that does not hold; absent for active entries.
        value: the value of its field, or `missing`.
        similarity: cosine similarity to the query.
        threshold: lowest similarity that fires the trigger.
        rank: rank among the entries of its book, from 1.
        top_k: last rank that fires the trigger.
        roll: the probability roll in percent.
        needed: the value that the roll had to stay below.
        winner: uid of the entry that holds the label.
        label: the label that both entries share.
        required_by: uid of the entry that requires this one.
        missing: uid of the entry that this one requires and that is unavailable.
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
    """The decision on one entry.

    Attributes:
        book_id: the entry's book.
        uid: the entry's uid.
        active: whether the entry is active.
        reason: the trigger that fired, or why the entry is not active.
        detail: for people: why each of its triggers did not fire.
        facts: the facts behind the decision.
    """

    book_id: str
    uid: str
    active: bool
    reason: ReplicaReason
    detail: str | None = None
    facts: ReplicaFacts = NO_REPLICA_FACTS


class ReplicaWarning(NamedTuple):
    """A warning about something that the author may not expect.

    Attributes:
        code: the stable, machine-readable name of the warning.
        message: the warning for people.
        book_id: the book, if it is about one.
        uid: uid of the entry, if it is about one.
    """

    code: WarningCode
    message: str
    book_id: str | None = None
    uid: str | None = None


class Suppressed(NamedTuple):
    """An entry that lost a conflict.

    Attributes:
        uid: uid of the entry.
        winner: uid of the entry that won.
        label: the label that both share.
        book_id: book of the entry that lost.
    """

    uid: str
    winner: str
    label: str
    book_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionCount:
    """The number of active entries at a position.

    Attributes:
        position: 0 to 7.
        label: the position for people.
        count: number of active entries.
    """

    position: int
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStats:
    """Counts of the active entries. Counts of zero are left out.

    Attributes:
        total: number of active entries.
        by_position: the count at each position, ascending.
        by_trigger: the count of each trigger, in the order in which triggers are tried.
    """

    total: int
    by_position: tuple[PositionCount, ...]
    by_trigger: Mapping[Trigger, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaActive:
    """An active entry after normalisation.

    Attributes:
        uid: its uid in the book.
        content: its text with macros filled in.
        position: where to place it, 0 to 7.
        order: at one position, lower is inserted earlier.
        trigger_config: as in its file, or derived.
        comment: the author's label.
        disable: always false.
        probability: chance in percent.
        depth: at position 6: number of messages of the history that follow.
        role: at position 6: 0 system, 1 user, 2 assistant.
        group: its conflict labels; null if it has none.
        group_weight: in a conflict the higher weight wins.
        requires: uids of the entries that it requires.
        trigger_type: the trigger that fired.
        position_label: the position for people.
        book_id: its book.
        source: whether its book is a global one or the character's.
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
    """A book that the turn used.

    Attributes:
        id: the book's id.
        name: the book's name.
        source: whether it is a global book or the character's.
        entry_count: number of its entries.
    """

    id: str
    name: str
    source: Source
    entry_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaResponse:
    """The response to a ReplicaRequest.

    Attributes:
        entries: the active entries, sorted by position, order, and place in the books.
        stats: counts of the active entries.
        warnings: what the author may not expect.
        suppressed: the entries that lost a conflict.
        unplaced: uids of active entries at position 7, which only replace their macro.
        books: the books that were found, in order.
        decisions: in the order of the books and their entries; `explain` limits them.
        snapshot: the stored revisions that were used.
        activation_id: id under which the turn is kept; null if it is not.
        policy_version: version of the rules; it changes when they change results.
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
        members["entries"] = [_to_members(entry) for entry in self.entries]
        return orjson.dumps(members, default=_encode)

    def message(self) -> bytes:
        """Return the message `worldbook_active` for a front end, as compact JSON in UTF-8.

        Send it even if no entry is active, so that the panel is cleared. It has `warnings` if there
        are any.

        Source: docs/rules/replica.md §6.2.
        """
        entries = [_to_members(entry) for entry in self.entries]
        members: dict[str, object] = {"type": "worldbook_active", "entries": entries}
        if self.warnings:
            members["warnings"] = self.warnings
        return orjson.dumps(members, default=_encode)


def _to_members(entry: ReplicaActive) -> dict[str, object]:
    """Return an entry with the member names of SillyTavern_replica."""
    members = {name: getattr(entry, name) for name in entry.__slots__}
    members["groupWeight"] = members.pop("group_weight")
    # It comes from the file unchanged and may hold integers of any size, which orjson refuses.
    members["trigger_config"] = orjson.Fragment(canonical_json(entry.trigger_config))
    return members


def _encode(value: object) -> object:
    if value is NO_REPLICA_FACTS:  # most decisions
        return _EMPTY
    match value:
        case ReplicaFacts() | ReplicaWarning():
            named = zip(value._fields, value, strict=True)
            return {name: fact for name, fact in named if fact is not None}
        case Suppressed() | LoadedBook():
            return value._asdict()
    raise TypeError
