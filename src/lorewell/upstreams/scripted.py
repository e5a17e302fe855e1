"""A model without a server that follows a script, for demos and tests."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from lorewell.host.draft import role_of, spoken_text
from lorewell.turn import PreparedTurn
from lorewell.upstreams.replies import ChatDelta, ChatReply

_TITLE = re.compile(r'<worldbook-entry id="[^"]*" title="([^"]*)">')
_LORE = re.compile(r"<worldbook-entry .*?</worldbook-entry>", re.DOTALL)
_CHINESE = re.compile("[\u4e00-\u9fff]")
_WORDS = re.compile(r"\s*\S+|\s+")
_MAX_QUOTED_CHARS = 200
_MAX_TITLES = 5


class ScriptedModel:
    """Replies without a network; equal messages get equal replies.

    After the replies of the script it repeats the user's message and names the titles of the lore
    in the prompt, in Chinese or English like the user's message.
    """

    def __init__(self, script: Iterable[str] = ()) -> None:
        """Take the scripted replies, which are used in order."""
        self.model = "scripted"
        self._script = iter(script)

    async def __call__(self, prepared: PreparedTurn) -> ChatReply:
        """Return the reply to a turn, so that `Turn.run` can call this model."""
        return await self.complete(prepared.messages, tools=prepared.tools)

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> ChatReply:
        """Return the reply to the messages; it never calls a tool."""
        del tools
        content = next(self._script, None)
        return ChatReply(
            content=_reply(messages) if content is None else content, finish_reason="stop"
        )

    async def stream(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> AsyncIterator[ChatDelta]:
        """Yield the same reply word by word."""
        reply = await self.complete(messages, tools=tools)
        for word in _WORDS.findall(reply.content):
            yield ChatDelta(content=word)
        yield ChatDelta(finish_reason=reply.finish_reason)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _reply(messages: Sequence[Mapping[str, Any]]) -> str:
    texts = [(role_of(message), spoken_text(message)) for message in messages]
    titles = [html.unescape(title) for _, text in texts for title in _TITLE.findall(text)]
    known = [title for title in dict.fromkeys(titles) if title][:_MAX_TITLES]
    user_text = next((text for role, text in reversed(texts) if role == "user"), "")
    quoted = _LORE.sub("", user_text).strip()[:_MAX_QUOTED_CHARS]
    if _CHINESE.search(user_text):
        seen = f"我想到：{'、'.join(known)}。" if known else ""
        return f"你说：“{quoted}”{seen}"
    seen = f" I recall: {', '.join(known)}." if known else ""
    return f"You say: “{quoted}”{seen}"
