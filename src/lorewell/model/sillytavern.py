"""The block `sillytavern` of an entry: fields that only SillyTavern's rules use."""

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
    """The characters that an entry is for.

    Attributes:
        is_exclude: turn the filter around: the entry is for all other characters.
        names: file names of avatars.
        tags: tags of characters.
    """

    is_exclude: Flag = False
    names: Names = ()
    tags: Names = ()


class SillyTavernBlock(Contract):
    """Fields of SillyTavern that an Entry lacks, with SillyTavern's defaults.

    The block never repeats a field of the entry. Where both could disagree, the entry's field
    wins.

    Attributes:
        inherit: flags that follow the settings while they are false in the entry; sorted. It does
            not count in entries that were imported with null for such flags
            (`source.three_valued`): there the entry's own value decides.
        use_group_scoring: whether the entry's groups score by number of keys; null follows the
            settings.
        group: the group names as written, if there are several or the name is too long for a
            `conflict_key`; a single group is the entry's `conflict_key`, `group:<name>`.
        group_override: whether the entry wins its group by order instead of by chance.
        group_weight: weight of the entry in its group's roll.
        sticky: messages that the entry stays active for; null is off.
        cooldown: messages that the entry can't be activated again for; null is off.
        delay: messages that the chat must have; null is off.
        delay_until_recursion: activate by recursion only; 0 and false are off, true is level 1, a
            number is the level.
        vectorized: whether vector search may activate the entry.
        ignore_budget: whether the entry is kept if the budget is used up.
        use_probability: whether the probability is rolled; false only counts with an entry
            probability of 100.
        match_persona_description: also scan the persona's description.
        match_character_description: also scan the character's description.
        match_character_personality: also scan the character's personality.
        match_character_depth_prompt: also scan the character's note.
        match_scenario: also scan the scenario.
        match_creator_notes: also scan the creator's notes.
        triggers: kinds of generation that may use the entry; empty means all.
        character_filter: characters that the entry is for; null means all.
        automation_id: a script that SillyTavern runs with the entry; Lorewell runs nothing.
        add_memo: whether SillyTavern's editor shows the entry's title.
        display_index: the entry's place in SillyTavern's editor.

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


# A block of defaults is not stored, so that it changes no hash.
StoredBlock = Annotated[SillyTavernBlock | None, AfterValidator(_unless_default)]
