"""The policy `sillytavern` in the service: prompts, conversations, previews and replays."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from lorewell.model.activate import (
    AttachedBook,
    BookSource,
    SillyTavernRequest,
    SillyTavernScene,
)
from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.macro_values import Variables
from lorewell.model.preview import ChangedBook, kind_of
from lorewell.model.records import Timestamp
from lorewell.model.text import Count, Flag, Identifier, Integer, Name, Number

CONVERSATION_PATTERN = "^[^/]{1,200}$"  # the id is a segment of a path
ConversationId = Annotated[Identifier, Field(max_length=200, pattern=CONVERSATION_PATTERN)]
PromptName = Annotated[Identifier, Field(min_length=1, max_length=200)]


class VectorSearch(Contract):
    """Options of vector search, as in SillyTavern's vector storage.

    Attributes:
        messages: number of newest messages that form the query.
        max_entries: most contents to find.
        threshold: lowest cosine similarity.
        all_entries: also search entries that are not marked as `vectorized`.

    Source: docs/rules/sillytavern.md §13.
    """

    messages: Annotated[Integer, Field(ge=1, le=100)] = 2
    max_entries: Annotated[Integer, Field(ge=1, le=1_000)] = 5
    threshold: Annotated[Number, Field(ge=-1, le=1)] = 0.25
    all_entries: Flag = False


class ActivateRequest(SillyTavernRequest):
    """A turn to scan in the service.

    Attributes:
        prompt_id: also use the books bound to this prompt, as global books, in their order, before
            the global ones of `books`. If `books` names the same book, that item wins.
        vectors: activate entries of stored books that are similar to the newest messages, before
            those of `forced`; null turns vector search off.
        conversation_id: keep the timed state and the variables under this id. Unless they are
            given, the turn starts from those kept after the longest beginning of the chat,
            of which the last messages suffice.
    """

    prompt_id: PromptName | None = None
    vectors: VectorSearch | None = None
    conversation_id: ConversationId | None = None


class AttachedNative(Contract):
    """A native book that is not stored, with its binding.

    Attributes:
        source: what the book is bound to.
        name: its name in the scan; null means the book's own name.
        book: the whole book.
    """

    source: BookSource = "global"
    name: Name | None = None
    book: BookCreate


class AttachedChanges(ChangedBook):
    """A stored revision with unsaved changes, with its binding.

    Attributes:
        source: what the book is bound to.
        name: its name in the scan; null means the book's own name.
    """

    source: BookSource = "global"
    name: Name | None = None


PreviewedBook = Annotated[
    Annotated[AttachedBook, Tag("[stored]")]
    | Annotated[AttachedNative, Tag("[inline]")]
    | Annotated[AttachedChanges, Tag("[changed]")],
    Discriminator(kind_of),
]


class ActivatePreview(ActivateRequest):
    """An ActivateRequest whose books may also be unsaved or changed. It keeps no state.

    Attributes:
        books: inline, stored, stored with changes, or whole native books.
    """

    books: Annotated[tuple[PreviewedBook, ...], Field(max_length=100)] = ()  # type: ignore[assignment]  # wider on purpose


class ReplayRequest(SillyTavernScene):
    """A chat to replay turn by turn.

    Attributes:
        prompt_id: also use the books bound to this prompt, as in ActivateRequest.
        turns_after: which messages end a turn: every one, or those whose name is `macros.user`.
        from_messages: lowest number of messages at the first turn; `timed_state` is the state
            before it.
        seed: the seed of a turn is `{seed}:{number of messages}`.
    """

    prompt_id: PromptName | None = None
    turns_after: Literal["every_message", "user_messages"] = "every_message"
    from_messages: Count = 1


class ConversationInfo(Contract):
    """A conversation without its states.

    Attributes:
        conversation_id: the id that the caller chose.
        tenant_id: the tenant.
        state_count: number of kept states.
        created_at: when the first state was kept.
        updated_at: when the last state was kept.
    """

    conversation_id: str
    tenant_id: str
    state_count: int
    created_at: Timestamp
    updated_at: Timestamp


class ConversationPage(Contract):
    """A page of conversations.

    Attributes:
        conversations: last used first.
        next_cursor: `cursor` of the next page; null on the last page.
    """

    conversations: tuple[ConversationInfo, ...]
    next_cursor: str | None


class KeptState(Contract):
    """The state after a turn.

    Attributes:
        message_count: number of messages of the chat.
        messages_hash: hash of these messages.
        timed_state: the timed effects.
        variables: the variables of macros; without the global ones if they belong to a user.
        chat_hash: the hash of the chat; null if no macro asked for it.
        kept_at: when it was stored.
    """

    message_count: int
    messages_hash: str
    timed_state: dict[str, dict[str, dict[str, Any]]]
    variables: Variables = Field(default_factory=dict)
    chat_hash: int | None = None
    kept_at: Timestamp


class Conversation(ConversationInfo):
    """A conversation with its kept states.

    Attributes:
        states: newest first.
    """

    states: tuple[KeptState, ...]
