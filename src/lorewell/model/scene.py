"""The scene: what a caller knows about a turn, in one form for every policy and interface."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.entry import Role
from lorewell.model.macro_values import (
    GroupMember,
    MacroHost,
    MacroMessage,
    ShortText,
    Variables,
    read_time,
    read_zone,
)
from lorewell.model.text import (
    Count,
    Flag,
    Integer,
    Name,
    ScannedText,
    StateObject,
    Text,
    check_object,
    fault,
    pointer,
)

Trigger = Literal["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"]
NotePosition = Literal["in_chat", "before_prompt", "after_prompt"]
Seed = Annotated[Text, Field(max_length=200)]
Audience = Annotated[Text, Field(min_length=1, max_length=64)]

_MAX_STATE_KIB = 256
_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_MOMENT = re.compile(f"{_DATE}T{_TIME}", re.ASCII)


def _check_moment(text: str) -> str:
    if _MOMENT.fullmatch(text) is None:
        raise fault("", "must be a time of RFC 3339 with its offset, as 2026-01-31T20:15:00+08:00")
    if read_time(text) is None:
        raise fault("", "must be a day of the calendar, in the years 2 to 9998")
    return text


def _check_zone(name: str) -> str:
    if read_zone(name) is None:
        raise fault("", "must be the name of a time zone, or +HH:MM or -HH:MM")
    return name


Moment = Annotated[Text, Field(max_length=40), AfterValidator(_check_moment)]
Zone = Annotated[Text, Field(max_length=100), AfterValidator(_check_zone)]


class SceneNames(Contract):
    """The names of a scene.

    Attributes:
        char: the character who replies; the value of `{{char}}`.
        user: the user's persona; the value of `{{user}}`.
        group: the members of a group chat, as one text.
    """

    char: Name | None = None
    user: Name | None = None
    group: Name | None = None


class SceneCharacter(Contract):
    """The character who replies.

    Attributes:
        name: its name; the value of `{{char}}` if `names.char` is null.
        file: file name of its avatar, by which SillyTavern's filters identify characters.
        tags: its tags.
        description: the description of its card.
        personality: the personality of its card.
        scenario: the scenario of its card.
        depth_prompt: the character's note of its card.
    """

    name: Name | None = None
    file: Name | None = None
    tags: Annotated[tuple[Name, ...], Field(max_length=1_000)] | None = None
    description: ScannedText | None = None
    personality: ScannedText | None = None
    scenario: ScannedText | None = None
    depth_prompt: ScannedText | None = None


class SceneNote(Contract):
    """The author's note of this turn.

    Attributes:
        text: its text; with an empty one, only entries above and below the note are inserted.
        position: where it goes: into the chat, or before or after the leading system messages.
        depth: for the position `in_chat`: number of chat messages that follow it.
        role: role of its message.
    """

    text: ScannedText = ""
    position: NotePosition = "in_chat"
    depth: Annotated[Integer, Field(ge=0, le=10_000)] = 4
    role: Role = "system"


class Scene(Contract):
    """What is known about a turn besides its messages. A member that is null is not given.

    Attributes:
        state: values that conditions test.
        tables: values that conditions of the form `tb.name` test; no name that `state` has too.
            Together they take at most 256 KiB as JSON.
        names: the names of the chat.
        character: the character who replies.
        persona: description of the user's persona.
        note: the author's note.
        trigger: the kind of generation.
        chat_length: number of messages of the whole chat, also those that are not sent.
        seed: seed of all random draws.
        time: the time of the turn, with its offset; RFC 3339.
        timezone: the user's zone, as an IANA name or as `+HH:MM` or `-HH:MM`; by default the
            offset of `time`.
        group_members: the members of a group chat, in order.
        messages: the whole chat, oldest first, for macros such as `{{lastMessage}}`.
        chat_id: identifies the chat, for `{{pick}}`.
        variables: the variables that macros read and set, by scope and name. A scope that is
            given replaces the one that the service kept.
        host: the state of the chat program.
        audience: only entries with this audience are selected.
        tokenizer: the bundled encoding that counts the tokens of the prompt.
        enabled: false adds no lore in this turn.
    """

    state: StateObject | None = None
    tables: StateObject | None = None
    names: SceneNames | None = None
    character: SceneCharacter | None = None
    persona: ScannedText | None = None
    note: SceneNote | None = None
    trigger: Trigger | None = None
    chat_length: Count | None = None
    seed: Seed | None = None
    time: Moment | None = None
    timezone: Zone | None = None
    group_members: Annotated[tuple[GroupMember, ...], Field(max_length=1_000)] | None = None
    messages: Annotated[tuple[MacroMessage, ...], Field(max_length=10_000)] | None = None
    chat_id: ShortText | None = None
    variables: Variables | None = None
    host: MacroHost | None = None
    audience: Audience | None = None
    tokenizer: Name | None = None
    enabled: Flag | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        state, tables = self.state or {}, self.tables or {}
        twice = next((name for name in tables if name in state), None)
        if twice is not None:
            raise fault(pointer("tables", twice), "is also given in state")
        if state and tables:
            check_object({**state, **tables}, kib=_MAX_STATE_KIB)
        return self

    @property
    def char(self) -> str | None:
        """The value of `{{char}}`; None if it is not given."""
        named = None if self.names is None else self.names.char
        return self.character.name if named is None and self.character is not None else named

    @property
    def user(self) -> str | None:
        """The value of `{{user}}`; None if it is not given."""
        return None if self.names is None else self.names.user

    @property
    def values(self) -> dict[str, Any] | None:
        """The values that conditions test: those of the state and of the tables."""
        if self.state is None and self.tables is None:
            return None
        return {**(self.state or {}), **(self.tables or {})}


class SceneMember(NamedTuple):
    """A member of a scene that is given: its name, with dots for nested ones, and its value."""

    name: str
    value: object


_NESTED = ("names", "character")


def members_of(scene: Scene) -> Iterator[SceneMember]:
    """Yield the members that a scene gives, in the order of the contract.

    >>> [each.name for each in members_of(Scene(seed="7", names=SceneNames(user="Ann")))]
    ['names.user', 'seed']
    """
    for name in Scene.model_fields:
        value = getattr(scene, name)
        if name in _NESTED and value is not None:
            nested = ((each, getattr(value, each)) for each in type(value).model_fields)
            yield from (SceneMember(f"{name}.{k}", v) for k, v in nested if v is not None)
        elif value is not None:
            yield SceneMember(name, value)


def without_members(scene: Scene, names: Collection[str]) -> Scene:
    """Return a scene without some of its members.

    >>> rest = without_members(Scene(seed="7", names=SceneNames(user="Ann")), {"names.user"})
    >>> [each.name for each in members_of(rest)]
    ['seed']
    """
    dropped: dict[str, object] = dict.fromkeys(name for name in names if "." not in name)
    for head in _NESTED:
        nested = getattr(scene, head)
        own = [name.partition(".")[2] for name in names if name.startswith(f"{head}.")]
        if nested is not None and own:
            dropped[head] = nested.model_copy(update=dict.fromkeys(own))
    return scene.model_copy(update=dropped)


def merge_scenes(*layers: Scene | None) -> Scene | None:
    """Return one scene: each member from the first layer that gives it; None if none gives any.

    Members of `names` and `character` are merged one by one, all others are
    taken whole. An earlier `state` or `tables` replaces both of later layers.

    >>> merged = merge_scenes(Scene(seed="7"), None, Scene(seed="8", audience="cast"))
    >>> [(each.name, each.value) for each in members_of(merged)]
    [('seed', '7'), ('audience', 'cast')]
    """
    given = [layer for layer in layers if layer is not None and any(members_of(layer))]
    if len(given) <= 1:
        return given[0] if given else None
    first, rest = given[0], merge_scenes(*given[1:])
    own = {name for name in Scene.model_fields if getattr(first, name) is not None}
    if own & {"state", "tables"}:
        own |= {"state", "tables"}
    merged = {name: getattr(first if name in own else rest, name) for name in Scene.model_fields}
    for name, kind in (("names", SceneNames), ("character", SceneCharacter)):
        merged[name] = _merge(kind, getattr(first, name), getattr(rest, name))
    return Scene.model_construct(
        **{name: value for name, value in merged.items() if value is not None}
    )


def _merge(kind: type[Contract], first: Contract | None, rest: Contract | None) -> Contract | None:
    if first is None or rest is None:
        return first or rest
    pairs = ((name, getattr(first, name), getattr(rest, name)) for name in kind.model_fields)
    merged = {name: mine if mine is not None else theirs for name, mine, theirs in pairs}
    return kind.model_construct(
        **{name: value for name, value in merged.items() if value is not None}
    )
