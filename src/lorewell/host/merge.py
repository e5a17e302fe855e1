"""Merges adjacent messages of the same role (docs/rules/host.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lorewell.host.draft import TOOL_ROLES, PromptMessage, role_of, text_of

_SEPARATOR = "\n\n"
_PLAIN = {"role", "content"}


def merge(messages: Iterable[PromptMessage]) -> tuple[PromptMessage, ...]:
    """Return the messages in order, with adjacent ones of the same role joined by a blank line.

    Only messages with just a role and a text are joined. A message with a name, tool calls, a list
    of parts or any other member stays as it is, and so does every tool message.
    """
    runs: list[list[PromptMessage]] = []
    for message in messages:
        if runs and _may_join(runs[-1][-1], message):
            runs[-1].append(message)
        else:
            runs.append([message])
    return tuple(run[0] if len(run) == 1 else _joined(run) for run in runs)


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


def _joined(run: Sequence[PromptMessage]) -> PromptMessage:
    texts, parts, begin = [], [], 0
    for message in run:
        text = text_of(message.message) or ""
        texts.append(text)
        parts += [part.moved(begin) for part in message.parts]
        begin += len(text) + len(_SEPARATOR)
    content = _SEPARATOR.join(texts)
    return PromptMessage(message={**run[0].message, "content": content}, parts=tuple(parts))
