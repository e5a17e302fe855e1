"""What the policy `sillytavern` is asked with, in SillyTavern's own terms."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.select import BookId, Explain
from lorewell.model.text import (
    Flag,
    FreeObject,
    Integer,
    Name,
    Number,
    StateObject,
    Text,
    check_object,
    fault,
)

MAX_BUDGET_PERCENT = 100
SHIPPED_BUDGET_PERCENT = 25
MAX_BOOK_KIB = 16 * 1024

BookSource = Literal["global", "chat", "persona", "character"]
Trigger = Literal["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"]
Count = Annotated[Integer, Field(ge=0, le=1_000_000_000)]
Draw = Annotated[Number, Field(ge=0, lt=1)]
ScannedText = Annotated[Text, Field(max_length=200_000)]


def _sane_percent(percent: float) -> float:
    """Return the percentage as SillyTavern's loader takes it: above 100 counts as the shipped one.

    Source: docs/rules/sillytavern.md §1.
    """
    return SHIPPED_BUDGET_PERCENT if percent > MAX_BUDGET_PERCENT else percent


class SillyTavernSettings(Contract):
    """SillyTavern's settings under their own names, with the defaults that it ships.

    Attributes:
        world_info_depth: how many of the newest messages are scanned.
        world_info_min_activations: look deeper until so many entries are active; 0 is off.
        world_info_min_activations_depth_max: how deep that goes at most; 0 is the whole chat.
        world_info_budget: percent of the context.
        world_info_budget_cap: tokens; 0 is no cap.
        world_info_max_recursion_steps: how many loops a scan has at most; 0 is no limit.
        world_info_character_strategy: 0 evenly, 1 character first, 2 global first; else as 0.

    Source: docs/rules/sillytavern.md §1.
    """

    world_info_depth: Count = 2
    world_info_min_activations: Count = 0
    world_info_min_activations_depth_max: Count = 0
    world_info_budget: Annotated[Number, Field(ge=0), AfterValidator(_sane_percent)] = 25
    world_info_budget_cap: Count = 0
    world_info_include_names: Flag = True
    world_info_recursive: Flag = True
    world_info_case_sensitive: Flag = False
    world_info_match_whole_words: Flag = True
    world_info_use_group_scoring: Flag = False
    world_info_max_recursion_steps: Count = 0
    world_info_character_strategy: Integer = 1
    world_info_overflow_alert: Flag = False


def _check_entries(entries: dict[str, FreeObject]) -> dict[str, FreeObject]:
    check_object(dict(entries), kib=MAX_BOOK_KIB)
    return entries


class AttachedBook(Contract):
    """A book and what it is bound to: inline, as a world-info file has it, or a stored revision.

    Attributes:
        source: what it is bound to. A book counts once; global wins over chat, that over persona,
            that over character.
        name: its name in SillyTavern; entries are called "name.uid". A stored book has one.
        entries: of an inline book, by the keys of its file.
        book_id: of a stored book; without `revision` its latest one.
    """

    source: BookSource = "global"
    name: Name | None = None
    entries: Annotated[dict[str, FreeObject], AfterValidator(_check_entries)] | None = None
    book_id: BookId | None = None
    revision: Annotated[Integer, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.entries is None) == (self.book_id is None):
            raise fault("", "must hold either entries or book_id")
        if self.entries is not None and self.name is None:
            raise fault("/name", "must be given with entries")
        if self.book_id is None and self.revision is not None:
            raise fault("/revision", "must be given with book_id alone")
        return self


class ChatLine(Contract):
    """One message; with a name it is scanned as "name: content", if the settings say so."""

    name: Name | None = None
    content: ScannedText


class ScanTexts(Contract):
    """Texts beside the chat that an entry may ask to be scanned."""

    persona_description: ScannedText = ""
    character_description: ScannedText = ""
    character_personality: ScannedText = ""
    character_depth_prompt: ScannedText = ""
    scenario: ScannedText = ""
    creator_notes: ScannedText = ""


class MacroValues(Contract):
    """What the macros stand for."""

    user: Name = ""
    char: Name = ""
    persona: ScannedText = ""
    description: ScannedText = ""
    personality: ScannedText = ""
    scenario: ScannedText = ""


class SelectedCharacter(Contract):
    """The character of the chat, as the filters of entries know it."""

    avatar: Name
    tags: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()


class InjectedPrompt(Contract):
    """A prompt that something else injects; `scan` says whether keys are looked for in it."""

    name: Name
    value: ScannedText
    scan: Flag = True


class AuthorsNote(Contract):
    """The author's note; `insert` says whether it is inserted this turn."""

    value: ScannedText
    insert: Flag = True
    scan: Flag = False


class ForcedEntry(Contract):
    """An entry that is activated from outside, as a vector search does it.

    Attributes:
        ref: "book.uid" of an entry of the books; what `override` names is other in the copy.
        entry: a whole entry object instead, with its own `world` and `uid`.
    """

    ref: Name | None = None
    override: FreeObject = Field(default_factory=dict)
    entry: FreeObject | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.ref is None) == (self.entry is None):
            raise fault("", "must hold either ref or entry")
        return self


class Mending(Contract):
    """Each mends one behaviour of SillyTavern that looks unintended; all off is SillyTavern.

    Attributes:
        group_removal: an entry that two groups remove takes no other one along.
        group_cooldown: a sticky entry is not thrown out of its group by its own cooldown.
        budget: an entry that does not fit is left out, feeds no recursion, and smaller ones may
            follow; the budget may be used up to its last token.
        word_borders: letters of all scripts are parts of words, not those of ASCII alone; those of
            scripts that are written without spaces are none.
        blank_keys: a key of nothing but blanks never matches, instead of always.
    """

    group_removal: Flag = False
    group_cooldown: Flag = False
    budget: Flag = False
    word_borders: Flag = False
    blank_keys: Flag = False


class SillyTavernScene(Contract):
    """What SillyTavern looks at in a turn, whichever turn it is.

    Attributes:
        books: in the order in which they were selected or bound.
        chat: newest last.
        context_tokens: the size of the model's context, of which the budget is a part.
        message_tokens: what a counted text costs on top of its tokens, as SillyTavern counts it
            for chat completions (6 there, 0 for text completions).
        seed: the random numbers are made from it.
        timed_state: what the last turn of this chat answered; invalid parts are dropped.
    """

    settings: SillyTavernSettings = SillyTavernSettings()
    books: Annotated[tuple[AttachedBook, ...], Field(max_length=100)] = ()
    chat: Annotated[tuple[ChatLine, ...], Field(max_length=10_000)] = ()
    scan_texts: ScanTexts = ScanTexts()
    macros: MacroValues = MacroValues()
    character: SelectedCharacter | None = None
    trigger: Trigger = "normal"
    prompts: Annotated[tuple[InjectedPrompt, ...], Field(max_length=100)] = ()
    authors_note: AuthorsNote | None = None
    context_tokens: Count
    message_tokens: Count = 0
    seed: Annotated[Text, Field(max_length=200)] = "0"
    timed_state: StateObject = Field(default_factory=dict)
    mending: Mending = Mending()


class SillyTavernRequest(SillyTavernScene):
    """One turn as SillyTavern scans it.

    Attributes:
        draws: the random numbers of this scan, in [0, 1), in order. Without them they are made
            from `seed`.
        forced: activated from outside; a later one replaces one of the same entry.
        dry_run: neither reads nor changes sticky and cooldown.
    """

    draws: Annotated[tuple[Draw, ...], Field(max_length=100_000)] | None = None
    forced: Annotated[tuple[ForcedEntry, ...], Field(max_length=1_000)] = ()
    dry_run: Flag = False
    explain: Explain = "full"
