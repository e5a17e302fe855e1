"""What the service adds to the policy `sillytavern`: prompts, conversations, previews, replays."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from lorewell.model.activate import (
    AttachedBook,
    BookSource,
    Count,
    SillyTavernRequest,
    SillyTavernScene,
)
from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.preview import ChangedBook, kind_of
from lorewell.model.records import Timestamp
from lorewell.model.text import Flag, Identifier, Integer, Name, Number

CONVERSATION_PATTERN = "^[^/]{1,200}$"  # it is a segment of a path
ConversationId = Annotated[Identifier, Field(max_length=200, pattern=CONVERSATION_PATTERN)]
PromptName = Annotated[Identifier, Field(min_length=1, max_length=200)]


class VectorSearch(Contract):
    """How entries are found by vectors, as SillyTavern's vector storage finds them.

    Attributes:
        messages: how many of the newest ones are the query.
        max_entries: how many contents are found at most.
        threshold: how near they must be at least, as a cosine.
        all_entries: whether entries count that are not marked as `vectorized`.

    Source: docs/rules/sillytavern.md §13.
    """

    messages: Annotated[Integer, Field(ge=1, le=100)] = 2
    max_entries: Annotated[Integer, Field(ge=1, le=1_000)] = 5
    threshold: Annotated[Number, Field(ge=-1, le=1)] = 0.25
    all_entries: Flag = False


class ActivateRequest(SillyTavernRequest):
    """One turn, as the service is asked for it.

    Attributes:
        prompt_id: the books bound to this prompt count too: global ones, in their order, before
            the global ones of `books`. A book that `books` names counts as it is named there.
        conversation_id: timed state is kept under this name. The turn begins with the state that
            was kept after the longest part of the chat that is still its beginning, unless
            `timed_state` is given.
        vectors: activates entries of stored books that are near to what was said last, before
            those of `forced`.
    """

    prompt_id: PromptName | None = None
    vectors: VectorSearch | None = None
    conversation_id: ConversationId | None = None


class AttachedNative(Contract):
    """A whole book in our own format, and what it is bound to."""

    source: BookSource = "global"
    name: Name | None = None
    book: BookCreate


class AttachedChanges(ChangedBook):
    """A stored revision with entries changed, added or removed, and what it is bound to."""

    source: BookSource = "global"
    name: Name | None = None


PreviewedBook = Annotated[
    Annotated[AttachedBook, Tag("[stored]")]
    | Annotated[AttachedNative, Tag("[inline]")]
    | Annotated[AttachedChanges, Tag("[changed]")],
    Discriminator(kind_of),
]


class ActivatePreview(ActivateRequest):
    """An ActivateRequest whose books may be stored, changed or given whole; it keeps no state."""

    books: Annotated[tuple[PreviewedBook, ...], Field(max_length=100)] = ()  # type: ignore[assignment]  # wider on purpose


class ReplayRequest(SillyTavernScene):
    """A whole chat, to be run turn after turn.

    Attributes:
        prompt_id: as in ActivateRequest.
        turns_after: every message ends a turn, or those alone whose name is `macros.user`.
        from_messages: how many messages there are at the first turn at least; `timed_state` is
            the state before it.
        seed: turn by turn it is `seed:messages`.
    """

    prompt_id: PromptName | None = None
    turns_after: Literal["every_message", "user_messages"] = "every_message"
    from_messages: Count = 1


class ConversationInfo(Contract):
    """A conversation without its states."""

    conversation_id: str
    tenant_id: str
    state_count: int
    created_at: Timestamp
    updated_at: Timestamp


class ConversationPage(Contract):
    """Conversations, last used first; `next_cursor` asks for the next page, null on the last."""

    conversations: tuple[ConversationInfo, ...]
    next_cursor: str | None


class KeptState(Contract):
    """The timed state after a turn.

    Attributes:
        messages_hash: of all messages that the chat had.
    """

    message_count: int
    messages_hash: str
    timed_state: dict[str, dict[str, dict[str, Any]]]
    kept_at: Timestamp


class Conversation(ConversationInfo):
    """A conversation with all states that are kept of it, newest first."""

    states: tuple[KeptState, ...]
