"""What a turn needs from outside, as narrow as it goes."""

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
    """Where the books of one tenant are asked.

    `AsyncLorewellClient` of `lorewell.client` is one, and so is `FileLore`.
    """

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        """Return the concrete revisions that a prompt uses now, in order, and their policy."""
        ...

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        """Return what of the requested books belongs into a turn.

        The prompt that it is for changes nothing in the answer: those who watch it are told.
        """
        ...

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        """Return what SillyTavern does with the requested books in a turn; `prompt_id` as above."""
        ...

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        """Return what is active of the requested books by the rules of SillyTavern_replica."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKey:
    """Which conversation it is: no user ever meets that of another one."""

    tenant_id: str
    user_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRecord:
    """What is kept of a conversation: its prompt, for good, and its newest scene."""

    prompt_id: str
    scene_id: str | None = None


class Conversations(Protocol):
    """Where a host keeps what its conversations began with."""

    async def note(self, key: ConversationKey, record: ConversationRecord) -> str:
        """Return the prompt of a conversation, which is kept if there is none yet.

        The scene is kept if the prompt is the conversation's own. Of callers at the same time all
        get the same prompt.
        """
        ...
