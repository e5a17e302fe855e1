"""Requests to assemble a prompt: a draft, selected lore, and the token budget."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.entry import OutletName, Position, Role
from lorewell.model.scene import Scene
from lorewell.model.select import Wrapper
from lorewell.model.text import (
    Count,
    Flag,
    Integer,
    Name,
    Number,
    Text,
    WholeText,
    check_json,
    fault,
)

DraftKind = Literal["character", "examples", "author_note", "chat", "input", "tool", "template"]
MAX_MESSAGES = 10_000
MAX_BLOCKS = 10_000
# Bounds of the members of a selection's response: a label is a name and a uid, and an outlet is a
# field of an entry object.
_Label = Annotated[Text, Field(max_length=2_000)]
_OutletText = Annotated[Text, Field(max_length=65_536)]
_Texts = Annotated[tuple[WholeText, ...], Field(max_length=MAX_BLOCKS)]


def _check_message(message: dict[str, Any]) -> dict[str, Any]:
    check_json(message)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise fault("/role", "must be a text that is not empty")
    if isinstance(content, list):
        for index, part in enumerate(content):
            if not isinstance(part, dict):
                raise fault(f"/content/{index}", "must be an object")
    elif content is not None and not isinstance(content, str):
        raise fault("/content", "must be a text, a list of parts, or null")
    return message


def _check_free(value: dict[str, Any]) -> dict[str, Any]:
    check_json(value)
    return value


ProviderMessage = Annotated[
    dict[str, Any],
    AfterValidator(_check_message),
    Field(
        json_schema_extra={
            "properties": {"role": {"type": "string", "minLength": 1}},
            "required": ["role"],
        }
    ),
]
"""A message as chat-completion providers accept it: any members, in their order."""


class DraftMessage(Contract):
    """A message of the prompt before lore is placed.

    Attributes:
        kind: its part in the prompt; `template` is any other text.
        message: the message as the provider will get it.
    """

    kind: DraftKind
    message: ProviderMessage


class PromptBudget(Contract):
    """The token budget of the whole prompt.

    Attributes:
        context_window: the model's context window, the reply included; null checks nothing.
        reserved_output: tokens reserved for the reply.
        message_overhead: tokens that each message costs on top of its texts.
        media_tokens: tokens that each content part other than text counts for.
        tools: tool definitions, counted as compact JSON.
    """

    context_window: Count | None = None
    reserved_output: Count = 0
    message_overhead: Count = 4
    media_tokens: Count = 1_000
    tools: Annotated[
        tuple[Annotated[dict[str, Any], AfterValidator(_check_free)], ...],
        Field(max_length=1_000),
    ] = ()


class AssembleOptions(Contract):
    """Options of prompt assembly.

    Attributes:
        merge_adjacent: merge adjacent messages of the same role.
        stable_prefix: place constant and sticky lore before the character material and all other
            lore after it, so that the beginning of the prompt stays the same from turn to turn.
        budget: the token budget of the whole prompt.
        previous: messages of the previous turn's prompt, to measure the shared prefix.
    """

    merge_adjacent: Flag = True
    stable_prefix: Flag = False
    budget: PromptBudget = PromptBudget()
    previous: Annotated[tuple[ProviderMessage, ...], Field(max_length=MAX_MESSAGES)] | None = None


class _FromResponse(Contract):
    """A part of a selection's response, as JSON or as an object; unknown members are ignored."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class SelectedBlock(_FromResponse):
    """A block of a SelectResponse.

    Attributes:
        id: full id of the entry.
        title: the entry's title.
        content: the text to place.
        position: where to place it.
        depth: for the position `at_depth`: number of chat messages that follow it.
        role: role of the message that holds it.
        order: lower is printed first.
        outlet_name: name of the outlet; set if and only if the position is `outlet`.
        reason: why the entry was selected.
        wrapper: what surrounds the text: `full`, `short` or `plain`.
    """

    id: _Label
    title: _Label = ""
    content: WholeText
    position: Position
    depth: Annotated[Integer, Field(ge=0, le=10_000)] = 0
    role: Role = "system"
    order: Integer = 0
    outlet_name: OutletName | None = None
    reason: _Label
    wrapper: Wrapper = "full"

    @model_validator(mode="after")
    def _check_outlet(self) -> Self:
        if (self.position == "outlet") != (self.outlet_name is not None):
            raise fault("/outlet_name", "must be set if and only if position is outlet")
        return self


class ActiveEntry(_FromResponse):
    """An active entry of a SillyTavernResponse.

    Attributes:
        id: the entry, as `book.uid`.
        content: its text.
        order: its insertion order.
        position: its position as SillyTavern's number, 0 to 7.
        reason: what activated it.
    """

    id: _Label
    content: WholeText = ""
    order: Number | None = None
    position: Integer | None = None
    reason: _Label = ""


class ActiveExample(_FromResponse):
    """A text of a SillyTavernResponse before or after the example messages.

    Attributes:
        position: 0 before the example messages, 1 after them.
        content: the text.
    """

    position: Annotated[Integer, Field(ge=0, le=1)]
    content: WholeText


class ActiveDepthGroup(_FromResponse):
    """Texts of a SillyTavernResponse for one depth and role.

    Attributes:
        depth: number of chat messages that follow.
        role: 0 system, 1 user, 2 assistant.
        entries: the texts in order.
    """

    depth: Any = None
    role: Any = None
    entries: _Texts

    @model_validator(mode="after")
    def _check_free(self) -> Self:
        check_json([self.depth], "/depth")
        check_json([self.role], "/role")
        return self


class Activation(_FromResponse):
    """A SillyTavernResponse, whole or with these members.

    Attributes:
        activated: the active entries, in the order of activation.
        world_info_before: the text before the character material.
        world_info_after: the text after the character material.
        examples: texts before and after the example messages.
        depth_groups: texts to insert into the chat, by depth and role.
        authors_note_top: texts before the author's note.
        authors_note_bottom: texts after the author's note.
        outlets: texts by the name of their outlet.
        timed_state: the state after the turn; `stable_prefix` uses it to find sticky entries.
    """

    activated: Annotated[tuple[ActiveEntry, ...], Field(max_length=MAX_BLOCKS)] = ()
    world_info_before: WholeText = ""
    world_info_after: WholeText = ""
    examples: Annotated[tuple[ActiveExample, ...], Field(max_length=MAX_BLOCKS)] = ()
    depth_groups: Annotated[tuple[ActiveDepthGroup, ...], Field(max_length=MAX_BLOCKS)] = ()
    authors_note_top: _Texts = ()
    authors_note_bottom: _Texts = ()
    outlets: Annotated[dict[_OutletText, _Texts], Field(max_length=MAX_BLOCKS)] = Field(
        default_factory=dict
    )
    timed_state: Annotated[dict[str, Any], AfterValidator(_check_free)] = Field(
        default_factory=dict
    )


class AssembleRequest(AssembleOptions):
    """A draft, and the lore to place in it: either `blocks` or `sillytavern`.

    Attributes:
        draft: the messages of the prompt, in order.
        blocks: `blocks` of a response of `/v1/context/select`.
        sillytavern: a response of `/v1/sillytavern/activate`.
        tokenizer: a tokenizer, or a model for its tokenizer; null means the service's own.
        scene: the turn in the form that all policies share. Its author's note is put into the
            draft, its `tokenizer` counts, and nothing is placed if it adds no lore; its other
            members have had their effect on the selection.
    """

    draft: Annotated[tuple[DraftMessage, ...], Field(max_length=MAX_MESSAGES)]
    blocks: Annotated[tuple[SelectedBlock, ...], Field(max_length=MAX_BLOCKS)] = ()
    sillytavern: Activation | None = None
    tokenizer: Name | None = None
    scene: Scene | None = None

    @model_validator(mode="after")
    def _check_scene(self) -> Self:
        if self.scene is None:
            return self
        if self.scene.tokenizer is not None and self.tokenizer is not None:
            raise fault("/scene/tokenizer", "is also given in tokenizer")
        if self.scene.note is not None and any(each.kind == "author_note" for each in self.draft):
            raise fault("/scene/note", "is also given by a message of the draft")
        return self

    @model_validator(mode="after")
    def _check_one_selection(self) -> Self:
        if self.blocks and self.sillytavern is not None:
            raise fault("/sillytavern", "must not be given together with blocks")
        return self
