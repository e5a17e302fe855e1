"""The table that maps fields between SillyTavern's two dialects and ours.

World-info form is an entry of a world-info file (`key`, `order`, `disable`). Card form is an entry
of a card's book (`keys`, `insertion_order`, `enabled`, the rest under `extensions`). Real files mix
both in one entry, so every field is read from all its names, those of the form first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field as attribute, replace
from typing import Any, Literal, NamedTuple

from lorewell.engine.sillytavern.entry import values as v
from lorewell.model.sillytavern import (
    MAX_AUTOMATION_CHARS,
    MAX_GROUP_CHARS,
    MAX_PLACE,
    MAX_TRIGGER_CHARS,
    MAX_TRIGGERS,
    MAX_WEIGHT,
)

Form = Literal["world_info", "card"]
ByName = Mapping[str, Any]  # values of a foreign file by field name

POSITIONS = (
    *("before_character", "after_character", "author_note_top", "author_note_bottom"),
    *("at_depth", "before_examples", "after_examples", "outlet"),
)
LOGICS = ("and_any", "not_all", "not_any", "and_all")
ROLES = ("system", "user", "assistant")
# Limits of the core. Source: docs/rules/native.md §3.2.
MAX_TITLE_CHARS = 500
MAX_LEVEL = 1_000_000
MAX_DEPTH = 10_000
MAX_SCAN_DEPTH = 100
MAX_OUTLET_CHARS = 100
_POSITION_WORDS = {
    **{word: word for word in POSITIONS},
    **dict.fromkeys(("before", "before_char", "before_char_defs"), "before_character"),
    **dict.fromkeys(("after", "after_char", "after_char_defs"), "after_character"),
    **dict.fromkeys(("before_example", "before_example_messages"), "before_examples"),
    **dict.fromkeys(("after_example", "after_example_messages"), "after_examples"),
    **dict.fromkeys(("an_top", "top_an", "before_author_note"), "author_note_top"),
    **dict.fromkeys(("an_bottom", "bottom_an", "after_author_note"), "author_note_bottom"),
    "depth": "at_depth",
}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


class Codec(NamedTuple):
    """Reads a value from a file, and writes it back."""

    read: v.Reader
    write: Callable[[Any], object] = _plain


class FieldName(NamedTuple):
    """A place of a field in an entry.

    Attributes:
        path: member names joined by "/".
        codec: the codec, if it is not the field's own.
        along: whether a change is written here even if the entry lacks this name.
    """

    path: str
    codec: Codec | None = None
    along: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryField:
    """A field: its name in our model, its names in both dialects, and its codec.

    Attributes:
        name: its name in the entry or in the block, depending on `place`.
        codec: converts its values.
        default: the value of an entry without the field.
        card_default: the default for a card, if it differs.
        world: its name in world-info form.
        card: its names in card form; the first one wins.
        nullable: whether null is a value in world-info form, not a missing value.
        optional: whether the view of a card omits the field if the card lacks it.
        ignored: code of the repair note for a field that the native policy ignores.
        requirement: the requirement of an entry that has a value here.
        aliases: other names that authors use; they count last, with a repair note.
        names: by form, all names of the field, the form's own dialect first.
    """

    name: str
    place: Literal["core", "block"]
    codec: Codec
    default: Any
    card_default: Any = None
    world: str
    card: tuple[FieldName, ...]
    nullable: bool = False
    optional: bool = False
    ignored: str = ""
    requirement: str = ""
    aliases: tuple[FieldName, ...] = ()
    names: Mapping[Form, tuple[FieldName, ...]] = attribute(init=False)

    def __post_init__(self) -> None:
        """Compute `names` once, because every field of every entry is searched under them."""
        world, card = (FieldName(self.world),), self.card
        both = {"world_info": (world, card), "card": (card, world)}
        names = {}
        for form, (own, other) in both.items():
            known = {name.path for name in own}
            others = (name for name in other if name.path not in known)
            names[form] = (*own, *others, *self.aliases)
        object.__setattr__(self, "names", names)

    @property
    def dialect_names(self) -> tuple[FieldName, ...]:
        """The names in both dialects, without aliases."""
        return (FieldName(self.world), *self.card)

    def default_in(self, form: Form) -> Any:  # noqa: ANN401  each field has its own type
        """Return the value of an entry of that form that lacks the field."""
        differs = form == "card" and self.card_default is not None
        return self.card_default if differs else self.default


def _names(*paths: str) -> tuple[FieldName, ...]:
    """Return names in a card; a leading dot stands for `extensions/`."""
    return tuple(FieldName(path.replace(".", "extensions/", 1)) for path in paths)


_FLAG = Codec(v.flag)
_LOGIC_WORDS = {word: word for word in LOGICS}
_CARD_POSITION = Codec(
    v.choice(POSITIONS, _POSITION_WORDS, ("before_char", "after_char")),
    lambda position: "before_char" if position == POSITIONS[0] else "after_char",
)


def _write_filter(found: ByName | None) -> object:
    if found is None:
        return None
    names = {"isExclude": "is_exclude", "names": "names", "tags": "tags"}
    return {name: _plain(found[member]) for name, member in names.items()}


def _flag(place: Literal["core", "block"], name: str, world: str, *card: str) -> EntryField:
    return EntryField(
        name=name, place=place, codec=_FLAG, default=False, world=world, card=_names(*card)
    )


def _inherited(name: str, world: str, *card: str) -> EntryField:
    return EntryField(
        name=name,
        place="core",
        codec=_FLAG,
        default=None,
        world=world,
        card=_names(*card),
        nullable=True,
    )


def _turns(name: str) -> EntryField:
    return EntryField(
        name=name,
        place="block",
        codec=Codec(v.turns),
        default=None,
        world=name,
        card=_names(f".{name}"),
        nullable=True,
        requirement=name,
    )


# In the order of SillyTavern's own conversion. whole_words_only and key_logic are WyvernChat's.
# Source: docs/rules/formats.md §1, §2.2, §2.3, §2.4; docs/rules/native.md §11.4.
TABLE: tuple[EntryField, ...] = (
    EntryField(
        name="keys",
        place="core",
        codec=Codec(v.keys),
        default=(),
        world="key",
        card=_names("keys"),
        aliases=_names(
            *("keywords", "keyword", "trigger", "trigger_words", "triggerWords"),
            *("primary_keys", "primaryKeys", "activation_keys", "关键词", "触发词"),
        ),
    ),
    EntryField(
        name="secondary_keys",
        place="core",
        codec=Codec(v.keys),
        default=(),
        world="keysecondary",
        card=_names("secondary_keys"),
        aliases=_names("secondaryKeys", "secondary_keywords"),
    ),
    # SillyTavern only reads a card's `comment`, so a new title is written there, too.
    EntryField(
        name="title",
        place="core",
        codec=Codec(v.title(MAX_TITLE_CHARS)),
        default="",
        world="comment",
        card=(FieldName("name"), FieldName("comment", along=True)),
        aliases=_names("title", "displayName", "display_name", "标题"),
    ),
    EntryField(
        name="content",
        place="core",
        codec=Codec(v.text()),
        default="",
        world="content",
        card=_names("content"),
        aliases=_names("entry", "text", "value", "内容"),
    ),
    replace(
        _flag("core", "constant", "constant", "constant"),
        aliases=_names("alwaysActive", "always_active", "forceActivation"),
    ),
    _flag("core", "selective", "selective", "selective"),
    EntryField(
        name="order",
        place="core",
        codec=Codec(v.integer(-MAX_LEVEL, MAX_LEVEL)),
        default=100,
        world="order",
        card=_names("insertion_order"),
        aliases=_names("insertorder", "insertionOrder"),
    ),
    # Other readers of cards only know the text, so both are written.
    EntryField(
        name="position",
        place="core",
        codec=Codec(v.choice(POSITIONS, _POSITION_WORDS), POSITIONS.index),
        default="before_character",
        card_default="after_character",
        world="position",
        card=(
            FieldName("extensions/position", along=True),
            FieldName("position", _CARD_POSITION, along=True),
        ),
    ),
    _flag("core", "exclude_recursion", "excludeRecursion", ".exclude_recursion"),
    _flag("core", "prevent_recursion", "preventRecursion", ".prevent_recursion"),
    EntryField(
        name="delay_until_recursion",
        place="block",
        codec=Codec(v.level),
        default=0,
        world="delayUntilRecursion",
        card=_names(".delay_until_recursion"),
        requirement="delay_until_recursion",
    ),
    EntryField(
        name="enabled",
        place="core",
        codec=Codec(v.negated, operator.not_),
        default=True,
        world="disable",
        card=(FieldName("enabled", _FLAG),),
    ),
    EntryField(
        name="add_memo",
        place="block",
        codec=_FLAG,
        default=False,
        world="addMemo",
        card=(),
        optional=True,
    ),
    EntryField(
        name="display_index",
        place="block",
        codec=Codec(v.integer(-MAX_PLACE, MAX_PLACE)),
        default=None,
        world="displayIndex",
        card=_names(".display_index"),
        nullable=True,
        optional=True,
    ),
    EntryField(
        name="probability",
        place="core",
        codec=Codec(v.number(0, 100)),
        default=100,
        world="probability",
        card=_names(".probability"),
    ),
    EntryField(
        name="use_probability",
        place="block",
        codec=_FLAG,
        default=True,
        world="useProbability",
        card=_names(".useProbability", ".use_probability"),
    ),
    EntryField(
        name="depth",
        place="core",
        codec=Codec(v.integer(0, MAX_DEPTH)),
        default=4,
        world="depth",
        card=_names(".depth"),
    ),
    EntryField(
        name="logic",
        place="core",
        codec=Codec(v.choice(LOGICS, _LOGIC_WORDS), LOGICS.index),
        default="and_any",
        world="selectiveLogic",
        card=(
            *_names(".selectiveLogic", ".selective_logic"),
            FieldName("key_logic", Codec(v.choice(LOGICS, _LOGIC_WORDS, _LOGIC_WORDS), str.upper)),
        ),
    ),
    EntryField(
        name="outlet_name",
        place="core",
        codec=Codec(v.text(MAX_OUTLET_CHARS)),
        default="",
        world="outletName",
        card=_names(".outlet_name"),
    ),
    EntryField(
        name="group",
        place="block",
        codec=Codec(v.text(MAX_GROUP_CHARS)),
        default="",
        world="group",
        card=_names(".group"),
    ),
    _flag("block", "group_override", "groupOverride", ".group_override"),
    EntryField(
        name="group_weight",
        place="block",
        codec=Codec(v.number(0, MAX_WEIGHT)),
        default=100,
        world="groupWeight",
        card=_names(".group_weight"),
        ignored="group_weight_ignored",
    ),
    EntryField(
        name="scan_depth",
        place="core",
        codec=Codec(v.integer(0, MAX_SCAN_DEPTH)),
        default=None,
        world="scanDepth",
        card=_names(".scan_depth"),
        nullable=True,
    ),
    # SillyTavern ignores a card's own `case_sensitive`; it is read as its author meant it.
    _inherited("case_sensitive", "caseSensitive", ".case_sensitive", "case_sensitive"),
    _inherited("match_whole_words", "matchWholeWords", ".match_whole_words", "whole_words_only"),
    EntryField(
        name="use_group_scoring",
        place="block",
        codec=_FLAG,
        default=None,
        world="useGroupScoring",
        card=_names(".use_group_scoring"),
        nullable=True,
        ignored="ignored_field",
    ),
    EntryField(
        name="automation_id",
        place="block",
        codec=Codec(v.text(MAX_AUTOMATION_CHARS)),
        default="",
        world="automationId",
        card=_names(".automation_id"),
        ignored="ignored_field",
    ),
    EntryField(
        name="role",
        place="core",
        codec=Codec(v.choice(ROLES, {word: word for word in ROLES}), ROLES.index),
        default="system",
        world="role",
        card=_names(".role"),
        nullable=True,
    ),
    EntryField(
        name="vectorized",
        place="block",
        codec=_FLAG,
        default=False,
        world="vectorized",
        card=_names(".vectorized"),
        ignored="ignored_field",
    ),
    _turns("sticky"),
    _turns("cooldown"),
    _turns("delay"),
    _flag(
        "block",
        "match_persona_description",
        "matchPersonaDescription",
        ".match_persona_description",
    ),
    _flag(
        "block",
        "match_character_description",
        "matchCharacterDescription",
        ".match_character_description",
    ),
    _flag(
        "block",
        "match_character_personality",
        "matchCharacterPersonality",
        ".match_character_personality",
    ),
    _flag(
        "block",
        "match_character_depth_prompt",
        "matchCharacterDepthPrompt",
        ".match_character_depth_prompt",
    ),
    _flag("block", "match_scenario", "matchScenario", ".match_scenario"),
    _flag("block", "match_creator_notes", "matchCreatorNotes", ".match_creator_notes"),
    EntryField(
        name="triggers",
        place="block",
        codec=Codec(v.texts(MAX_TRIGGERS, MAX_TRIGGER_CHARS)),
        default=(),
        world="triggers",
        card=_names(".triggers"),
        requirement="generation_trigger",
    ),
    EntryField(
        name="ignore_budget",
        place="block",
        codec=_FLAG,
        default=False,
        world="ignoreBudget",
        card=_names(".ignore_budget"),
        ignored="ignored_field",
    ),
    EntryField(
        name="character_filter",
        place="block",
        codec=Codec(v.character_filter, _write_filter),
        default=None,
        world="characterFilter",
        card=_names(".character_filter"),
        nullable=True,
        optional=True,
        requirement="character_filter",
    ),
    # World info has no such field.
    EntryField(
        name="priority",
        place="core",
        codec=Codec(v.integer(-MAX_LEVEL, MAX_LEVEL)),
        default=0,
        world="extensions/lorewell/priority",
        card=(FieldName("extensions/lorewell/priority"), FieldName("priority", along=True)),
        optional=True,
    ),
)

# Names that only one of the dialects has. `key`, `keys` and the like are left out on purpose:
# files that only differ in these must give the same entries.
_CARD_MARKS = frozenset(["insertion_order", "enabled"])
_WORLD_MARKS = frozenset(
    [
        "order",
        "disable",
        "addMemo",
        "caseSensitive",
        "displayIndex",
        "excludeRecursion",
        "matchWholeWords",
        "preventRecursion",
        "scanDepth",
        "selectiveLogic",
        "useProbability",
    ]
)


def form_of(entry: Mapping[str, Any], container: Form) -> Form:
    """Return the dialect of one entry: its own if its names are clear, else the container's.

    Source: docs/rules/formats.md §2.4: real lists mix both, even in one entry.
    """
    card = not _CARD_MARKS.isdisjoint(entry)
    world = not _WORLD_MARKS.isdisjoint(entry)
    if card == world:
        return container
    return "card" if card else "world_info"
