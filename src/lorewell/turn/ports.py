"""The ports of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lorewell.model import (
    ActivateRequest,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
)


class LoreSource(Protocol):
    """A source of selections from one tenant's books.

    `AsyncLorewellClient` of `lorewell.client` and `FileLore` implement it.
    """

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        """Return the revisions that a prompt uses now, in order, and their policy."""
        ...

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        """Return which entries of the requested books go into a turn.

        `prompt_id` does not change the answer: subscribers to this prompt get a live event.
        """
        ...

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        """Run a turn under SillyTavern's rules; `prompt_id` as above."""
        ...

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        """Run a turn under SillyTavern_replica's rules; `prompt_id` as above."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKey:
    """The key of a conversation. It holds the user, so users never share a conversation."""

    tenant_id: str
    user_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRecord:
    """The stored part of a conversation: its prompt, which never changes, and its newest scene."""

    prompt_id: str
    scene_id: str | None = None


class Conversations(Protocol):
    """A host's store of the prompts that conversations began with."""

    async def note(self, key: ConversationKey, record: ConversationRecord) -> str:
        """Store the prompt of a new conversation; return the prompt of the conversation.

        The scene is stored if the prompt is the conversation's own. Concurrent callers all get the
        same prompt.
        """
        ...
