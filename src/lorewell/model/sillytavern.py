"""What only SillyTavern's rules know of an entry: the block `sillytavern`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lorewell.model.base import Contract
from lorewell.model.text import Flag, Integer, Number, Text, fault, pointer

MAX_TURNS = 1_000_000
MAX_WEIGHT = 1_000_000
MAX_PLACE = 1_000_000
MAX_GROUP_CHARS = 10_000
MAX_AUTOMATION_CHARS = 1_000
MAX_TRIGGERS = 50
MAX_TRIGGER_CHARS = 100
MAX_NAMES = 1_000
MAX_NAME_CHARS = 500

Inherited = Literal["case_sensitive", "match_whole_words"]
Turns = Annotated[Integer, Field(ge=1, le=MAX_TURNS)]
Names = Annotated[
    tuple[Annotated[Text, Field(max_length=MAX_NAME_CHARS)], ...], Field(max_length=MAX_NAMES)
]


def _sorted(names: tuple[Inherited, ...]) -> tuple[Inherited, ...]:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise fault(pointer(index), f"{name!r} is listed twice")
    return tuple(sorted(names))


class CharacterFilter(Contract):
    """The characters an entry is for, or with `is_exclude` not for: file names and tags."""

    is_exclude: Flag = False
    names: Names = ()
    tags: Names = ()


class SillyTavernBlock(Contract):
    """What SillyTavern knows of an entry and the core can't say, each with its default there.

    It never repeats what the core says, and where the two could be at odds the core wins.

    Attributes:
        inherit: the core flags that mean "as the settings say" as long as they are false; sorted.
        use_group_scoring: None means "as the settings say".
        group: the group names as written, where they are several or too long for a
            `conflict_key`; one group is the core's `conflict_key` "group:<name>".
        sticky, cooldown, delay: in messages; None is off.
        delay_until_recursion: 0 and false are off, true is 1, n is the level.
        use_probability: false with a core probability of 100 alone; any other one counts.
        triggers: the kinds of generation that may use the entry; empty is all.
        automation_id: what the program runs when the entry is used; nothing here does.
        add_memo, display_index: how its editor shows the entry.

    Source: docs/rules/sillytavern.md §2, docs/rules/formats.md §1.
    """

    inherit: Annotated[tuple[Inherited, ...], Field(max_length=2), AfterValidator(_sorted)] = (
        "case_sensitive",
        "match_whole_words",
    )
    use_group_scoring: Flag | None = None
    group: Annotated[Text, Field(max_length=MAX_GROUP_CHARS)] = ""
    group_override: Flag = False
    group_weight: Annotated[Number, Field(ge=0, le=MAX_WEIGHT)] = 100
    sticky: Turns | None = None
    cooldown: Turns | None = None
    delay: Turns | None = None
    delay_until_recursion: Flag | Annotated[Integer, Field(ge=0, le=MAX_TURNS)] = 0
    vectorized: Flag = False
    ignore_budget: Flag = False
    use_probability: Flag = True
    match_persona_description: Flag = False
    match_character_description: Flag = False
    match_character_personality: Flag = False
    match_character_depth_prompt: Flag = False
    match_scenario: Flag = False
    match_creator_notes: Flag = False
    triggers: Annotated[
        tuple[Annotated[Text, Field(max_length=MAX_TRIGGER_CHARS)], ...],
        Field(max_length=MAX_TRIGGERS),
    ] = ()
    character_filter: CharacterFilter | None = None
    automation_id: Annotated[Text, Field(max_length=MAX_AUTOMATION_CHARS)] = ""
    add_memo: Flag = False
    display_index: Annotated[Integer, Field(ge=-MAX_PLACE, le=MAX_PLACE)] | None = None


DEFAULT_BLOCK = SillyTavernBlock()


def _unless_default(block: SillyTavernBlock | None) -> SillyTavernBlock | None:
    return None if block == DEFAULT_BLOCK else block


# A block that says nothing is not stored, so that it changes no hash.
StoredBlock = Annotated[SillyTavernBlock | None, AfterValidator(_unless_default)]
