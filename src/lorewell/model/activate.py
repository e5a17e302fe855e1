"""Requests of the policy `sillytavern`, in SillyTavern's own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.macro_values import MacroValues, Variables
from lorewell.model.scene import Scene, Trigger
from lorewell.model.scene_fields import check_scene
from lorewell.model.select import BookId, Explain
from lorewell.model.text import (
    Count,
    Flag,
    FreeObject,
    Integer,
    Name,
    Number,
    ScannedText,
    StateObject,
    Text,
    check_object,
    fault,
)

MAX_BUDGET_PERCENT = 100
SHIPPED_BUDGET_PERCENT = 25
MAX_BOOK_KIB = 16 * 1024

MacroEngine = Literal["new", "old"]
BookSource = Literal["global", "chat", "persona", "character"]
Release = Literal["1.19", "1.18"]
TokenCounting = Literal["sillytavern-1.19", "sillytavern-1.18", "plain"]
Draw = Annotated[Number, Field(ge=0, lt=1)]


def _valid_percent(percent: float) -> float:
    """Return the percentage as SillyTavern loads it: above 100 counts as the shipped default.

    Source: docs/rules/sillytavern.md §1.
    """
    return SHIPPED_BUDGET_PERCENT if percent > MAX_BUDGET_PERCENT else percent


class SillyTavernSettings(Contract):
    """SillyTavern's settings under their own names, with the defaults of its settings file.

    Attributes:
        world_info_depth: number of newest messages to scan.
        world_info_min_activations: scan deeper until this many entries are active; 0 is off.
        world_info_min_activations_depth_max: deepest message of that scan; 0 is the whole chat.
        world_info_budget: percent of the context; above 100 counts as 25.
        world_info_budget_cap: most tokens; 0 is no cap.
        world_info_include_names: scan messages as `name: content`.
        world_info_recursive: let the content of active entries trigger more entries.
        world_info_case_sensitive: default of the entries' own setting.
        world_info_match_whole_words: default of the entries' own setting.
        world_info_use_group_scoring: default of the entries' own setting.
        world_info_max_recursion_steps: most loops of a scan, the first one included; 0 is no
            limit.
        world_info_character_strategy: 0 sorts all books together, 1 puts the character's books
            first, 2 the global ones; anything else counts as 0.
        world_info_overflow_alert: accepted, without effect.
        version: the release of SillyTavern whose rules apply.
        token_counting: how the tokens of a text are counted: as a release does, which adds 6 for
            tokenizers of OpenAI, or `plain`, which adds none; null follows `version`.
        macro_engine: `new` is the default of installations since 1.17, `old` that of earlier ones.
        expand_when_placed: expand the macros of active contents a second time, as SillyTavern does
            when it builds its prompt.

    Source: docs/rules/sillytavern.md §1.
    """

    world_info_depth: Count = 2
    world_info_min_activations: Count = 0
    world_info_min_activations_depth_max: Count = 0
    world_info_budget: Annotated[Number, Field(ge=0), AfterValidator(_valid_percent)] = 25
    world_info_budget_cap: Count = 0
    world_info_include_names: Flag = True
    world_info_recursive: Flag = True
    world_info_case_sensitive: Flag = False
    world_info_match_whole_words: Flag = True
    world_info_use_group_scoring: Flag = False
    world_info_max_recursion_steps: Count = 0
    world_info_character_strategy: Integer = 1
    world_info_overflow_alert: Flag = False
    version: Release = "1.19"
    token_counting: TokenCounting | None = None
    macro_engine: MacroEngine = "new"
    expand_when_placed: Flag = False


def _check_entries(entries: dict[str, FreeObject]) -> dict[str, FreeObject]:
    check_object(dict(entries), kib=MAX_BOOK_KIB)
    return entries


class AttachedBook(Contract):
    """A book with its binding: inline, as in a world-info file, or stored.

    Attributes:
        source: what the book is bound to. A book that is bound several times counts once, in the
            order global, chat, persona, character.
        name: the book's name in SillyTavern; entries have ids of the form `name.uid`. It must be
            given for an inline book.
        entries: the entries of an inline book, by their keys in the file.
        book_id: id of a stored book.
        revision: revision of a stored book; null means the latest one.
    """

    source: BookSource = "global"
    name: Name | None = None
    entries: Annotated[dict[str, FreeObject], AfterValidator(_check_entries)] | None = None
    book_id: BookId | None = None
    revision: Annotated[Integer, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.entries is None) == (self.book_id is None):
            raise fault("", "must have either entries or book_id")
        if self.entries is not None and self.name is None:
            raise fault("/name", "must be given with entries")
        if self.book_id is None and self.revision is not None:
            raise fault("/revision", "must only be given with book_id")
        return self


class ChatLine(Contract):
    """A chat message.

    Attributes:
        name: its author; `world_info_include_names` scans the message as `name: content`.
        content: its text.
    """

    name: Name | None = None
    content: ScannedText


class ScanTexts(Contract):
    """Texts outside of the chat that entries can opt in to scan.

    Attributes:
        persona_description: scanned for entries with `match_persona_description`.
        character_description: scanned for entries with `match_character_description`.
        character_personality: scanned for entries with `match_character_personality`.
        character_depth_prompt: scanned for entries with `match_character_depth_prompt`.
        scenario: scanned for entries with `match_scenario`.
        creator_notes: scanned for entries with `match_creator_notes`.
    """

    persona_description: ScannedText = ""
    character_description: ScannedText = ""
    character_personality: ScannedText = ""
    character_depth_prompt: ScannedText = ""
    scenario: ScannedText = ""
    creator_notes: ScannedText = ""


class SelectedCharacter(Contract):
    """The character of the chat, for the character filters of entries.

    Attributes:
        avatar: file name of its avatar.
        tags: its tags.
    """

    avatar: Name = ""
    tags: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()


class InjectedPrompt(Contract):
    """A prompt that an extension injects.

    Attributes:
        name: its name.
        value: its text.
        scan: whether the text is scanned for keys.
    """

    name: Name
    value: ScannedText
    scan: Flag = True


class AuthorsNote(Contract):
    """The author's note.

    Attributes:
        value: its text.
        insert: whether it is inserted this turn.
        scan: whether the text is scanned for keys.
    """

    value: ScannedText
    insert: Flag = True
    scan: Flag = False


class ForcedEntry(Contract):
    """An entry that the caller activates, as SillyTavern's vector search does.

    Attributes:
        ref: an entry of the books, as `book.uid`.
        override: members that replace those of the referenced entry in this scan.
        entry: a whole entry instead of `ref`, with its own `world` and `uid`.
    """

    ref: Name | None = None
    override: FreeObject = Field(default_factory=dict)
    entry: FreeObject | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.ref is None) == (self.entry is None):
            raise fault("", "must have either ref or entry")
        return self


class Mending(Contract):
    """Switches that fix behaviour of SillyTavern that looks unintended.

    With all switches off, scans equal those of SillyTavern.

    Attributes:
        group_removal: removing an entry that another group removed before removes no third entry.
        group_cooldown: a sticky entry is not removed from its group by its own cooldown.
        budget: an entry that does not fit is left out and feeds no recursion, smaller entries may
            follow, and the budget may be used to its last token.
        word_borders: letters of all scripts count as parts of words, not only ASCII letters;
            except for scripts that are written without spaces.
        blank_keys: a key of blanks never matches; in SillyTavern it always does.
    """

    group_removal: Flag = False
    group_cooldown: Flag = False
    budget: Flag = False
    word_borders: Flag = False
    blank_keys: Flag = False


class SillyTavernScene(Contract):
    """The input of a scan.

    Attributes:
        settings: SillyTavern's settings.
        books: in the order in which they were selected or bound.
        chat: newest message last.
        scan_texts: texts outside of the chat that entries can opt in to scan.
        macros: values of macros.
        variables: `variables` of the response to the previous turn of this chat: by scope and name,
            texts and numbers that macros read and set.
        character: the character of the chat, for character filters.
        trigger: the kind of generation, for the trigger filters of entries.
        prompts: prompts that extensions inject.
        authors_note: the author's note, which entries can be merged into.
        context_tokens: size of the model's context; the budget is a share of it.
        message_tokens: tokens that each counted text costs on top of its own; null follows the
            settings `token_counting` and `version`.
        tokenizer: a tokenizer, or a model for its tokenizer; null means the service's own.
        seed: seed of the random numbers.
        timed_state: `timed_state` of the response to the previous turn of this chat; invalid parts
            are dropped.
        mending: switches that fix behaviour that looks unintended.
    """

    settings: SillyTavernSettings = SillyTavernSettings()
    books: Annotated[tuple[AttachedBook, ...], Field(max_length=100)] = ()
    chat: Annotated[tuple[ChatLine, ...], Field(max_length=10_000)] = ()
    scan_texts: ScanTexts = ScanTexts()
    macros: MacroValues = MacroValues()
    variables: Variables = Field(default_factory=dict)
    character: SelectedCharacter | None = None
    trigger: Trigger = "normal"
    prompts: Annotated[tuple[InjectedPrompt, ...], Field(max_length=100)] = ()
    authors_note: AuthorsNote | None = None
    context_tokens: Count
    message_tokens: Count | None = None
    tokenizer: Name | None = None
    seed: Annotated[Text, Field(max_length=200)] = "0"
    timed_state: StateObject = Field(default_factory=dict)
    mending: Mending = Mending()


class SillyTavernRequest(SillyTavernScene):
    """A turn to scan under the policy `sillytavern`.

    Attributes:
        draws: the random numbers of this scan, in [0, 1), in order; null derives them from `seed`.
        forced: entries that the caller activates; a later item replaces an earlier one of the same
            entry.
        dry_run: ignore and keep the state of sticky and cooldown.
        explain: `full` returns the ledger (`loops`, `events`, `verdicts`), other values don't.
        chat_length: number of messages of the whole chat, for `delay` and the ends of effects; null
            counts those of `chat`, or, in a conversation, finds it from what was sent before.
        scene: the turn in the form that all policies share. No value may be given here and in its
            own field.
    """

    draws: Annotated[tuple[Draw, ...], Field(max_length=100_000)] | None = None
    forced: Annotated[tuple[ForcedEntry, ...], Field(max_length=1_000)] = ()
    dry_run: Flag = False
    explain: Explain = "full"
    chat_length: Count | None = None
    scene: Scene | None = None

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(  # noqa: PLR0913  a field is a parameter
            self,
            *,
            context_tokens: int,
            settings: SillyTavernSettings | Mapping[str, Any] = ...,
            books: Sequence[AttachedBook | Mapping[str, Any]] = ...,
            chat: Sequence[ChatLine | Mapping[str, Any]] = ...,
            scan_texts: ScanTexts | Mapping[str, Any] = ...,
            macros: MacroValues | Mapping[str, Any] = ...,
            variables: Variables | Mapping[str, Any] = ...,
            character: SelectedCharacter | Mapping[str, Any] | None = ...,
            trigger: Trigger = ...,
            prompts: Sequence[InjectedPrompt | Mapping[str, Any]] = ...,
            authors_note: AuthorsNote | Mapping[str, Any] | None = ...,
            message_tokens: int | None = ...,
            tokenizer: str | None = ...,
            seed: str = ...,
            timed_state: Mapping[str, Any] = ...,
            mending: Mending | Mapping[str, Any] = ...,
            draws: Sequence[float] | None = ...,
            forced: Sequence[ForcedEntry | Mapping[str, Any]] = ...,
            dry_run: bool = ...,
            explain: Explain = ...,
            chat_length: int | None = ...,
            scene: Scene | Mapping[str, Any] | None = ...,
        ) -> None: ...

    @property
    def given_length(self) -> int | None:
        """The number of messages of the whole chat as the request or its scene gives it."""
        said = None if self.scene is None else self.scene.chat_length
        return self.chat_length if said is None else said

    @property
    def length(self) -> int:
        """The number of messages of the whole chat."""
        return len(self.chat) if self.given_length is None else self.given_length

    @property
    def given_variables(self) -> Variables:
        """The variables that the request gives, in its own field or in its scene."""
        said = None if self.scene is None else self.scene.variables
        return self.variables if said is None else said

    @property
    def user(self) -> str:
        """The user's name, from the request or its scene."""
        said = None if self.scene is None else self.scene.user
        return self.macros.user if said is None else said

    @model_validator(mode="after")
    def _check_scene(self) -> Self:
        check_scene(self, self.scene, "sillytavern")
        return self
