"""Entries: lore with trigger rules and a position (docs/rules/native.md §3.2, §3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.condition import Condition
from lorewell.model.sillytavern import SillyTavernBlock, StoredBlock
from lorewell.model.text import (
    Flag,
    FreeObject,
    Identifier,
    Integer,
    Number,
    SourceObject,
    Text,
    fault,
    pointer,
)

# Member of `source` of an entry whose flags are null where they follow SillyTavern's settings.
# Without it, `inherit` of the block `sillytavern` says which ones do.
THREE_VALUED = "three_valued"
MAX_CONTENT_CHARS = 200_000
MAX_KEYS = 200
MAX_KEY_CHARS = 500

Position = Literal[
    "before_character",
    "after_character",
    "before_examples",
    "after_examples",
    "author_note_top",
    "author_note_bottom",
    "at_depth",
    "outlet",
]
# The canonical order of docs/rules/native.md §3.4.
POSITIONS: tuple[Position, ...] = get_args(Position)
Role = Literal["system", "user", "assistant"]
Logic = Literal["and_any", "and_all", "not_any", "not_all"]
Kind = Literal["lore", "character", "rule", "template", "state_update", "presentation"]


def _check_distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item in seen:
            raise fault(pointer(index), f"{item!r} is listed twice")
        seen.add(item)
    return items


def _to_list(value: Any) -> Any:  # noqa: ANN401  any input of a pydantic validator
    """Return a single text as a list of one."""
    return [value] if isinstance(value, str) else value


Distinct = AfterValidator(_check_distinct)
Keys = Annotated[
    tuple[Annotated[Text, Field(max_length=MAX_KEY_CHARS)], ...], Field(max_length=MAX_KEYS)
]
ConditionText = Annotated[Text, Field(max_length=500)]
_ConditionTexts = Annotated[tuple[ConditionText, ...], Field(max_length=50)]
EntryId = Annotated[Identifier, Field(min_length=1, max_length=150)]
Level = Annotated[Integer, Field(ge=-1_000_000, le=1_000_000)]
OutletName = Annotated[Text, Field(min_length=1, max_length=100)]


class Entry(Contract):
    """An entry of a book: a text, the rules that trigger it, and its position in the prompt.

    Attributes:
        id: unique in the book. If left out, the book generates `entry-{n}`, where `n` is the
            entry's zero-based index.
        title: for people; never part of a context.
        content: the lore. A blank content is stored but never selected.
        enabled: whether the entry can be selected.
        constant: select the entry without a trigger.
        required: select the entry without a trigger, or fail the whole request.
        keys: plain or regex keys; one hit triggers the entry.
        secondary_keys: keys that `logic` tests after a hit, if `selective` is true.
        selective: whether `secondary_keys` count.
        logic: which secondary keys must be found: `and_any` at least one, `and_all` every one,
            `not_any` none, `not_all` not every one.
        key_expression: keys joined by `and`, `or`, `not` and brackets; counts as one more key.
        case_sensitive: whether plain keys match case; a regex key has its own flags. Null, as in
            many imported entries, follows the settings of the policy `sillytavern`, and is false
            for other policies.
        match_whole_words: whether plain keys match only at word boundaries. Null is as for
            `case_sensitive`.
        probability: chance in percent that an otherwise active entry is kept.
        scan_depth: number of messages to scan; null uses the request's `scan_depth`.
        conditions: tests of the request's `state`; all must hold.
        conditions_text: conditions as text, such as `weather.storm = true`; all must hold.
        requires: ids of entries of the same book that are selected with this one.
        priority: entries with a higher priority compete for the budget first.
        order: at equal priority a higher order competes first; a lower order is printed first.
        conflict_key: of all entries with the same key only one is selected, across all books.
        audience: audiences that may see the entry; an empty list matches no request.
        kind: `lore`, `character` and `rule` can be selected, the others can't.
        position: where the host places the content.
        depth: for the position `at_depth`: number of chat messages that follow the content.
        role: role of the message that holds the content.
        outlet_name: name of the outlet; set if and only if the position is `outlet`.
        exclude_recursion: never trigger the entry by the content of another one.
        prevent_recursion: never let the content of this entry trigger another one.
        recall: whether the entry has a vector and can be recalled by similarity.
        runtime_requirements: features that the entry needs and Lorewell lacks; if any, the entry
            is never selected.
        metadata: free-form, at most 64 KiB as JSON.
        source: where the entry came from; at most 64 KiB as JSON, the member `raw` not counted.
        sillytavern: fields that only the policy `sillytavern` uses.
        replica: fields that only the policy `replica` uses; at most 64 KiB as JSON.
    """

    id: EntryId = ""
    title: Annotated[Text, Field(max_length=500)] = ""
    content: Annotated[Text, Field(max_length=MAX_CONTENT_CHARS)]
    enabled: Flag = True
    constant: Flag = False
    required: Flag = False
    keys: Keys = ()
    secondary_keys: Keys = ()
    selective: Flag = False
    logic: Logic = "and_any"
    key_expression: Annotated[Text, Field(min_length=1, max_length=500)] | None = None
    case_sensitive: Flag | None = False
    match_whole_words: Flag | None = False
    probability: Annotated[Number, Field(ge=0, le=100)] = 100
    scan_depth: Annotated[Integer, Field(ge=0, le=100)] | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=20)] = ()
    conditions_text: Annotated[
        _ConditionTexts,
        BeforeValidator(_to_list, json_schema_input_type=_ConditionTexts | ConditionText),
    ] = ()
    requires: Annotated[tuple[EntryId, ...], Field(max_length=20), Distinct] = ()
    priority: Level = 0
    order: Level = 0
    conflict_key: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    audience: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=64)], ...], Field(max_length=20)
    ] = ("actor",)
    kind: Kind = "lore"
    position: Position = "before_character"
    depth: Annotated[Integer, Field(ge=0, le=10_000)] = 0
    role: Role = "system"
    outlet_name: OutletName | None = None
    exclude_recursion: Flag = True
    prevent_recursion: Flag = True
    recall: Flag = True
    runtime_requirements: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=100)], ...], Field(max_length=50)
    ] = ()
    metadata: FreeObject = Field(default_factory=dict)
    source: SourceObject = Field(default_factory=dict)
    sillytavern: StoredBlock = None
    replica: FreeObject | None = None

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(  # noqa: PLR0913  a field is a parameter
            self,
            *,
            content: str,
            id: str = ...,  # noqa: A002  the field's name
            title: str = ...,
            enabled: bool = ...,
            constant: bool = ...,
            required: bool = ...,
            keys: Sequence[str] = ...,
            secondary_keys: Sequence[str] = ...,
            selective: bool = ...,
            logic: Logic = ...,
            key_expression: str | None = ...,
            case_sensitive: bool | None = ...,
            match_whole_words: bool | None = ...,
            probability: float = ...,
            scan_depth: int | None = ...,
            conditions: Sequence[Condition | Mapping[str, Any]] = ...,
            conditions_text: str | Sequence[str] = ...,
            requires: Sequence[str] = ...,
            priority: int = ...,
            order: int = ...,
            conflict_key: str | None = ...,
            audience: Sequence[str] = ...,
            kind: Kind = ...,
            position: Position = ...,
            depth: int = ...,
            role: Role = ...,
            outlet_name: str | None = ...,
            exclude_recursion: bool = ...,
            prevent_recursion: bool = ...,
            recall: bool = ...,
            runtime_requirements: Sequence[str] = ...,
            metadata: Mapping[str, Any] = ...,
            source: Mapping[str, Any] = ...,
            sillytavern: SillyTavernBlock | Mapping[str, Any] | None = ...,
            replica: Mapping[str, Any] | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _check_outlet(self) -> Self:
        if self.position == "outlet" and self.outlet_name is None:
            raise fault("/outlet_name", "must be set when position is outlet")
        if self.position != "outlet" and self.outlet_name is not None:
            raise fault("/outlet_name", "must be null unless position is outlet")
        return self
