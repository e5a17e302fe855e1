"""What the macros of the policy `sillytavern` read besides the scanned texts, and variables."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone
from typing import Annotated, Final, Literal, NamedTuple, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.entry import Distinct
from lorewell.model.text import Flag, Integer, Name, Number, Text, fault

MAX_VARIABLES: Final = 1_000  # of each scope
MAX_VARIABLE_CHARS: Final = 100_000  # of one value
MAX_VARIABLES_CHARS: Final = 1_000_000  # of all names and values of a scope

_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MINUTE: Final = timedelta(minutes=1)

MacroText = Annotated[Text, Field(max_length=200_000)]
ShortText = Annotated[Text, Field(max_length=2_000)]
MacroCount = Annotated[Integer, Field(ge=0, le=1_000_000_000)]
ChatRole = Literal["user", "character", "system"]
VariableScope = Literal["local", "global"]
VariableName = Annotated[Text, Field(min_length=1, max_length=500)]
VariableValue = Annotated[Text, Field(max_length=MAX_VARIABLE_CHARS)] | Number
ScopedVariables = Annotated[dict[VariableName, VariableValue], Field(max_length=MAX_VARIABLES)]


def _check_size(variables: ScopedVariables) -> ScopedVariables:
    chars = sum(
        len(name) + (len(value) if isinstance(value, str) else 0)
        for name, value in variables.items()
    )
    if chars > MAX_VARIABLES_CHARS:
        detail = f"names and values must have at most {MAX_VARIABLES_CHARS} characters together"
        raise fault("", detail)
    return variables


Variables = Annotated[
    dict[VariableScope, Annotated[ScopedVariables, AfterValidator(_check_size)]],
    Field(max_length=2),
]


class Moment(NamedTuple):
    """A point in time as a user's clock shows it.

    Attributes:
        milliseconds: since 1970-01-01 in UTC.
        offset_minutes: of the local time from UTC.
    """

    milliseconds: int
    offset_minutes: int


class GroupMember(Contract):
    """A member of a group chat.

    Attributes:
        name: its name.
        muted: whether it does not speak by itself.
        missing: whether its card no longer exists.
    """

    name: Name
    muted: Flag = False
    missing: Flag = False


class MacroMessage(Contract):
    """A message of the chat, for macros such as `{{lastMessage}}`.

    Attributes:
        content: its text.
        role: who wrote it; hidden messages are `system`.
        swipes: number of its alternatives; null if it has none.
        swipe: index of the shown alternative; as many as `swipes` while one is being written.
        sent: when it was sent: ISO 8601, another form that SillyTavern writes, or milliseconds
            since 1970.
    """

    content: MacroText
    role: ChatRole
    swipes: MacroCount | None = None
    swipe: MacroCount | None = None
    sent: Annotated[Text, Field(max_length=100)] | Number | None = None


class SwitchedPrompt(Contract):
    """The user's system prompt.

    Attributes:
        enabled: whether it is used.
        content: its text.
    """

    enabled: Flag = False
    content: MacroText = ""


class InstructTexts(Contract):
    """The instruct template, under the names of SillyTavern's template files.

    Attributes:
        enabled: whether instruct mode is on.
        story_string_prefix: before the story string.
        story_string_suffix: after the story string.
        input_sequence: before a message of the user.
        input_suffix: after a message of the user.
        output_sequence: before a message of the character.
        output_suffix: after a message of the character.
        system_sequence: before a system message.
        system_suffix: after a system message.
        first_output_sequence: before the character's first message; empty falls back to
            `output_sequence`.
        last_output_sequence: before the character's last message; empty falls back to
            `output_sequence`.
        first_input_sequence: before the user's first message; empty falls back to
            `input_sequence`.
        last_input_sequence: before the user's last message; empty falls back to
            `input_sequence`.
        last_system_sequence: before a system instruction at the end.
        stop_sequence: ends a reply.
        user_alignment_message: stands for a missing first message of the user.
    """

    enabled: Flag = False
    story_string_prefix: ShortText = ""
    story_string_suffix: ShortText = ""
    input_sequence: ShortText = ""
    input_suffix: ShortText = ""
    output_sequence: ShortText = ""
    output_suffix: ShortText = ""
    system_sequence: ShortText = ""
    system_suffix: ShortText = ""
    first_output_sequence: ShortText = ""
    last_output_sequence: ShortText = ""
    first_input_sequence: ShortText = ""
    last_input_sequence: ShortText = ""
    last_system_sequence: ShortText = ""
    stop_sequence: ShortText = ""
    user_alignment_message: ShortText = ""


class MacroHost(Contract):
    """The state of the chat program; null means that it is not given.

    Attributes:
        input: the text that the user is typing.
        max_context_tokens: size of the model's context; null takes `context_tokens` of the
            request.
        max_response_tokens: tokens reserved for the reply.
        model: name of the model.
        is_mobile: whether the program runs on a phone.
        last_generation_type: kind of the last generation; "" counts as `normal`.
        first_displayed_message: index of the first message on screen.
        completion: the kind of back end: `chat` or `text`.
        extensions: the installed extensions by name, and whether each is switched on.
        instruct: the instruct template.
        system_prompt: the user's system prompt.
        example_separator: the separator of example dialogues.
        chat_start: the text that starts the chat.
        chat_note: the author's note of the chat.
        character_note: the author's note of the character.
        default_note: the author's note for new chats.
        reasoning_prefix: before a block of reasoning.
        reasoning_suffix: after a block of reasoning.
        reasoning_separator: between reasoning and reply.
        prefer_character_prompt: whether the card's system prompt replaces the user's.
        prefer_character_instructions: whether the card's post-history instructions replace the
            user's.
    """

    input: MacroText | None = None
    max_context_tokens: MacroCount | None = None
    max_response_tokens: MacroCount | None = None
    model: Name | None = None
    is_mobile: Flag | None = None
    last_generation_type: Name | None = None
    first_displayed_message: MacroCount | None = None
    completion: Literal["chat", "text"] = "chat"
    extensions: Annotated[dict[Name, Flag], Field(max_length=1_000)] | None = None
    instruct: InstructTexts | None = None
    system_prompt: SwitchedPrompt | None = None
    example_separator: ShortText | None = None
    chat_start: ShortText | None = None
    chat_note: MacroText | None = None
    character_note: MacroText | None = None
    default_note: MacroText | None = None
    reasoning_prefix: ShortText | None = None
    reasoning_suffix: ShortText | None = None
    reasoning_separator: ShortText | None = None
    prefer_character_prompt: Flag = True
    prefer_character_instructions: Flag = True


class MacroValues(Contract):
    """Values of the macros, such as `{{user}}`; null means that a value is not given.

    Attributes:
        user: the user's name.
        char: the character's name.
        stand_ins: which of these names are not the real ones, but words that stand in for them; a
            macro that uses one is a warning.
        persona: description of the user's persona.
        description: the character's description.
        personality: the character's personality.
        scenario: the character's scenario.
        chat_scenario: the scenario of this chat; it replaces the character's.
        first_message: the character's first message.
        alternate_greetings: other first messages.
        example_messages: the character's example dialogues.
        system_prompt: the character's system prompt.
        post_history_instructions: the character's post-history instructions.
        character_version: version of the character's card.
        creator_notes: the creator's notes.
        depth_prompt: the character's note.
        group_members: the members of a group chat, in order; null outside of groups.
        messages: the whole chat, oldest first; the scan reads `chat` instead.
        chat_id: identifies the chat, for `{{pick}}`.
        main_chat_id: the chat that this one branched off from.
        chat_hash: `chat_hash` of an earlier response; it replaces the hash of `chat_id`.
        reroll_seed: a number or text that changes all picks of the chat.
        first_included_message: index of the first message in the last prompt.
        time: the current time in ISO 8601 with its offset from UTC; without it, macros of time
            and date stay as written.
        timezone: the user's zone, as an IANA name or as `+HH:MM` or `-HH:MM`; by default the
            offset of `time`.
        host: the state of the chat program.
        extra: texts of further macros that take no argument, by name, such as those of extensions.

    Source: docs/rules/sillytavern-macros.md §7.
    """

    user: Name = ""
    char: Name = ""
    stand_ins: Annotated[tuple[Literal["user", "char"], ...], Field(max_length=2), Distinct] = ()
    persona: MacroText | None = ""
    description: MacroText | None = ""
    personality: MacroText | None = ""
    scenario: MacroText | None = ""
    chat_scenario: MacroText | None = None
    first_message: MacroText | None = None
    alternate_greetings: Annotated[tuple[MacroText, ...], Field(max_length=1_000)] | None = None
    example_messages: MacroText | None = None
    system_prompt: MacroText | None = None
    post_history_instructions: MacroText | None = None
    character_version: ShortText | None = None
    creator_notes: MacroText | None = None
    depth_prompt: MacroText | None = None
    group_members: Annotated[tuple[GroupMember, ...], Field(max_length=1_000)] | None = None
    messages: Annotated[tuple[MacroMessage, ...], Field(max_length=10_000)] | None = None
    chat_id: ShortText | None = None
    main_chat_id: ShortText | None = None
    chat_hash: Annotated[Integer, Field(ge=0, lt=2**53)] | None = None
    reroll_seed: ShortText | Number | None = None
    first_included_message: MacroCount | None = None
    time: Annotated[Text, Field(max_length=50)] | None = None
    timezone: Annotated[Text, Field(max_length=100)] | None = None
    host: MacroHost = MacroHost()
    extra: Annotated[dict[Name, MacroText], Field(max_length=1_000)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_time(self) -> Self:
        if self.time is not None and read_time(self.time) is None:
            raise fault("/time", "must be a time in ISO 8601 with an offset from UTC")
        if self.timezone is not None and read_zone(self.timezone) is None:
            raise fault("/timezone", "must be the name of a time zone, or +HH:MM or -HH:MM")
        return self

    @property
    def moment(self) -> Moment | None:
        """The current time in the user's zone; None if it is not given."""
        time = None if self.time is None else read_time(self.time)
        if time is None:
            return None
        zone = None if self.timezone is None else read_zone(self.timezone)
        offset = (time if zone is None else time.astimezone(zone)).utcoffset() or timedelta()
        return Moment((time - _EPOCH) // _MILLISECOND, offset // _MINUTE)


def read_time(text: str) -> datetime | None:
    """Return a time in ISO 8601 with an offset; None if the text is none that zones can shift."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    # In the first and the last year, another zone may be out of range.
    return time if time.tzinfo is not None and MINYEAR < time.year < MAXYEAR else None


def read_zone(name: str) -> timezone | ZoneInfo | None:
    """Return a time zone by its name, or as `+HH:MM` or `-HH:MM`; None if there is none."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or not a name
        return None
