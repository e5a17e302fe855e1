"""What a prompt is assembled from: a draft of it, selected lore, and the room that there is."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from lorewell.model.activate import Count
from lorewell.model.base import Contract
from lorewell.model.entry import OutletName, Position, Role
from lorewell.model.text import Flag, Integer, Name, Number, Text, WholeText, check_json, fault

DraftKind = Literal["character", "examples", "author_note", "chat", "input", "tool", "template"]
MAX_MESSAGES = 10_000
MAX_BLOCKS = 10_000
# Of an answer: a name and a uid; what an entry's own field says, which is bounded by its object.
_Label = Annotated[Text, Field(max_length=2_000)]
_OutletText = Annotated[Text, Field(max_length=65_536)]
_Texts = Annotated[tuple[WholeText, ...], Field(max_length=MAX_BLOCKS)]


def _check_message(message: dict[str, Any]) -> dict[str, Any]:
    check_json(message)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise fault("/role", "must be a text")
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
"""A message as chat-completion providers take it: any members, in their order."""


class DraftMessage(Contract):
    """A message of the prompt before lore is placed.

    Attributes:
        kind: what it is to the host; `template` is any text that is nothing else.
        message: as the provider will get it.
    """

    kind: DraftKind
    message: ProviderMessage


class PromptBudget(Contract):
    """The room of the whole prompt, in tokens.

    Attributes:
        context_window: what the model takes, its answer included; None checks nothing.
        reserved_output: kept free for the answer.
        message_overhead: what each message costs beside its texts.
        media_tokens: what each part of a content that is no text counts for.
        tools: definitions of tools, counted as compact JSON.
    """

    context_window: Count | None = None
    reserved_output: Count = 0
    message_overhead: Count = 4
    media_tokens: Count = 1_000
    tools: Annotated[
        tuple[Annotated[dict[str, Any], AfterValidator(_check_free)], ...], Field(max_length=1_000)
    ] = ()


class AssembleOptions(Contract):
    """How a prompt is put together.

    Attributes:
        merge_adjacent: join neighbouring messages of one role.
        stable_prefix: constant and sticky lore stands first at the character part, the rest after
            it, so that the beginning of the prompt stays the same from turn to turn.
        previous: the messages of the turn before, to tell how much of the beginning is the same.
    """

    merge_adjacent: Flag = True
    stable_prefix: Flag = False
    budget: PromptBudget = PromptBudget()
    previous: Annotated[tuple[ProviderMessage, ...], Field(max_length=MAX_MESSAGES)] | None = None


class _FromAnswer(Contract):
    """A part of an answer, as JSON or as the value itself; its other members are passed over."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class SelectedBlock(_FromAnswer):
    """A block of a selection, as the answer has it."""

    id: _Label
    title: _Label = ""
    content: WholeText
    position: Position
    depth: Annotated[Integer, Field(ge=0, le=10_000)] = 0
    role: Role = "system"
    order: Integer = 0
    outlet_name: OutletName | None = None
    reason: _Label

    @model_validator(mode="after")
    def _check_outlet(self) -> Self:
        if (self.position == "outlet") != (self.outlet_name is not None):
            raise fault("/outlet_name", "must be set when position is outlet, and only then")
        return self


class ActiveEntry(_FromAnswer):
    """An active entry of the policy `sillytavern`, as the answer has it."""

    id: _Label
    content: WholeText = ""
    order: Number | None = None
    position: Integer | None = None
    reason: _Label = ""


class ActiveExample(_FromAnswer):
    """A text before (0) or after (1) the example messages, as the answer has it."""

    position: Annotated[Integer, Field(ge=0, le=1)]
    content: WholeText


class ActiveDepthGroup(_FromAnswer):
    """Texts for one depth and role, as the answer has them."""

    depth: Any = None
    role: Any = None
    entries: _Texts

    @model_validator(mode="after")
    def _check_free(self) -> Self:
        check_json([self.depth], "/depth")
        check_json([self.role], "/role")
        return self


class Activation(_FromAnswer):
    """What the policy `sillytavern` answered; the whole answer may be given."""

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
    """A draft, and the lore to be placed in it: blocks of a selection, or an activation.

    Attributes:
        draft: the messages of the prompt, in order.
        blocks: `blocks` of an answer of `/v1/context/select`.
        sillytavern: an answer of `/v1/sillytavern/activate`.
        tokenizer: a bundled encoding; the service's own if not given.
    """

    draft: Annotated[tuple[DraftMessage, ...], Field(max_length=MAX_MESSAGES)]
    blocks: Annotated[tuple[SelectedBlock, ...], Field(max_length=MAX_BLOCKS)] = ()
    sillytavern: Activation | None = None
    tokenizer: Name | None = None

    @model_validator(mode="after")
    def _check_one_selection(self) -> Self:
        if self.blocks and self.sillytavern is not None:
            raise fault("/sillytavern", "must not be given with blocks")
        return self
