"""Chat models: any server that speaks OpenAI's protocol, or a script."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from lorewell.turn import PreparedTurn
from lorewell.upstreams.openai_compatible import OpenAiChat
from lorewell.upstreams.options import Attempt, UpstreamOptions
from lorewell.upstreams.replies import ChatDelta, ChatReply, joined
from lorewell.upstreams.scripted import ScriptedModel

__all__ = [
    "Attempt",
    "ChatDelta",
    "ChatModel",
    "ChatReply",
    "OpenAiChat",
    "ScriptedModel",
    "UpstreamOptions",
    "joined",
]


class ChatModel(Protocol):
    """A chat model."""

    @property
    def model(self) -> str:
        """The name of the model."""
        ...

    async def __call__(self, prepared: PreparedTurn, /) -> ChatReply:
        """Return the reply to a turn."""
        ...

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> ChatReply:
        """Return the reply to the messages."""
        ...

    def stream(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> AsyncIterator[ChatDelta]:
        """Yield the reply in pieces."""
        ...

    async def close(self) -> None:
        """Release its resources."""
        ...
