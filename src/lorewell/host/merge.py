"""Joining neighbouring messages of one role (spec/host.md §8)."""

from __future__ import annotations

from collections.abc import Iterable

from lorewell.host.draft import TOOL_ROLES, PromptMessage, role_of, text_of

_SEPARATOR = "\n\n"
_PLAIN = {"role", "content"}


def merge(messages: Iterable[PromptMessage]) -> tuple[PromptMessage, ...]:
    """Return the messages with neighbours of equal role joined by a blank line, in their order.

    Only plain messages are joined: a role and a text, nothing else. What has a name, tool calls,
    a list of parts or any other member stays as it is, and so does what is from or about a tool.
    """
    merged: list[PromptMessage] = []
    for message in messages:
        if merged and _may_join(merged[-1], message):
            merged[-1] = _joined(merged[-1], message)
        else:
            merged.append(message)
    return tuple(merged)


def _may_join(first: PromptMessage, second: PromptMessage) -> bool:
    is_same_role = role_of(first.message) == role_of(second.message)
    return is_same_role and _is_plain(first) and _is_plain(second)


def _is_plain(message: PromptMessage) -> bool:
    return (
        message.message.keys() == _PLAIN
        and text_of(message.message) is not None
        and role_of(message.message) not in TOOL_ROLES
        and all(part.kind != "tool" for part in message.parts)
    )


def _joined(first: PromptMessage, second: PromptMessage) -> PromptMessage:
    before = f"{text_of(first.message)}{_SEPARATOR}"
    content = f"{before}{text_of(second.message)}"
    parts = (*first.parts, *(part.moved(len(before)) for part in second.parts))
    return PromptMessage(message={**first.message, "content": content}, parts=parts)
