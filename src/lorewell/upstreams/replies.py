"""Replies of a model, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lorewell.errors import LorewellError, UpstreamInvalidError
from lorewell.model.parse import parse_json

_UNREADABLE = "The model server returned an invalid reply."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A whole reply. An empty one is false, so that `Turn.run` asks again.

    Attributes:
        content: the text.
        tool_calls: in the provider's form.
        finish_reason: the provider's value.
        usage: the provider's token counts.
    """

    content: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.content.strip() or self.tool_calls)

    @property
    def message(self) -> dict[str, Any]:
        """The reply as a message of the chat."""
        called = {"tool_calls": [dict(call) for call in self.tool_calls]} if self.tool_calls else {}
        return {"role": "assistant", "content": self.content, **called}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDelta:
    """A piece of a reply, with the members of `ChatReply` that this piece holds."""

    content: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


def read_reply(body: bytes) -> ChatReply:
    """Return the reply in a body.

    Raises:
        UpstreamInvalidError: the body holds no reply.
    """
    return ChatReply(**_members(body, "message"))


def read_delta(event: bytes) -> ChatDelta:
    """Return the piece of a reply in an event of a stream.

    Raises:
        UpstreamInvalidError: the event holds none.
    """
    return ChatDelta(**_members(event, "delta"))


def _members(data: bytes, name: str) -> dict[str, Any]:
    try:
        document = parse_json(data)
    except LorewellError as error:
        raise UpstreamInvalidError(_UNREADABLE) from error
    if not isinstance(document, dict) or not isinstance(document.get("choices"), list):
        raise UpstreamInvalidError(_UNREADABLE)
    usage = document.get("usage")
    members: dict[str, Any] = {"usage": usage if isinstance(usage, dict) else {}}
    if not document["choices"] and name == "delta":  # the last event may hold only the usage
        return members
    choice = next(iter(document["choices"]), None)
    message = choice.get(name) if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise UpstreamInvalidError(_UNREADABLE)
    reason, calls = choice.get("finish_reason"), message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UpstreamInvalidError(_UNREADABLE)
    return {
        **members,
        "content": _text(message.get("content")),
        "tool_calls": tuple(calls),
        "finish_reason": reason if isinstance(reason, str) else None,
    }


def _text(content: object) -> str:
    """Return a text, or the joined texts of a list of parts, which some servers send."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else None
    if parts is None or not all(isinstance(part, dict) for part in parts):
        raise UpstreamInvalidError(_UNREADABLE)
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def joined(deltas: Iterable[ChatDelta]) -> ChatReply:
    """Return the whole reply of these pieces; pieces of tool calls are joined too."""
    texts: list[str] = []
    calls: dict[object, dict[str, Any]] = {}
    reason: str | None = None
    usage: Mapping[str, Any] = {}
    for delta in deltas:
        texts.append(delta.content)
        reason, usage = delta.finish_reason or reason, delta.usage or usage
        for call in delta.tool_calls:
            _merge_call(calls.setdefault(call.get("index"), {}), call)
    return ChatReply(
        content="".join(texts),
        tool_calls=tuple(calls.values()),
        finish_reason=reason,
        usage=usage,
    )


def _merge_call(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    function = whole.get("function", {})
    added = piece.get("function")
    for name, value in added.items() if isinstance(added, dict) else ():
        before = function.get(name)
        grows = name == "arguments" and isinstance(before, str) and isinstance(value, str)
        function[name] = before + value if grows else value
    whole.update({name: value for name, value in piece.items() if name != "index"})
    whole["function"] = function
