"""Reads the messages of a chat completion as a draft, from their roles and names alone.

The text of a message is never interpreted: a heading in a card is not structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, cast

from lorewell.host.draft import SYSTEM_ROLES, TOOL_ROLES, role_of, spoken_text
from lorewell.model.assemble import DraftKind, DraftMessage

# OpenAI's own names for examples; the other two let a client mark what it knows.
_NAMED: Final[Mapping[object, DraftKind]] = {
    "character": "character",
    "author_note": "author_note",
    "example_user": "examples",
    "example_assistant": "examples",
}
_CALLS = ("tool_calls", "function_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenMessage:
    """A real chat message: its role, the speaker's name if known, and its text."""

    role: str
    name: str | None
    text: str


def read_completion(messages: Sequence[Mapping[str, object]]) -> tuple[DraftMessage, ...]:
    """Return the messages of a chat completion as the draft of a prompt.

    A system or developer message named `character`, `author_note`, `example_user` or
    `example_assistant` gets the kind of its name. If none is named `character`, the unnamed ones of
    the leading run of system messages, up to the first example, are the character. Messages of user
    and assistant are chat, and the last of them is the input if it is the user's. Tool calls and
    tool results are not chat. All other messages are template.

    Args:
        messages: each with a string as `role`. They are not copied.

    >>> chat = [{"role": "system", "content": "沈七。"}, {"role": "user", "content": "我敲钟。"}]
    >>> [item.kind for item in read_completion(chat)]
    ['character', 'input']
    """
    kinds = [_kind_of(message) for message in messages]
    leading = sum(1 for _ in takewhile(lambda kind: kind not in ("chat", "tool"), kinds))
    if "character" not in kinds:
        until = kinds.index("examples") if "examples" in kinds[:leading] else leading
        kinds[:until] = ["character" if kind == "template" else kind for kind in kinds[:until]]
    real = [index for index, kind in enumerate(kinds) if kind == "chat"]
    if real and role_of(messages[real[-1]]) == "user":
        kinds[real[-1]] = "input"
    return tuple(
        # Not validated: their content is a matter between the client and the provider.
        DraftMessage.model_construct(kind=kind, message=cast("dict[str, Any]", message))
        for kind, message in zip(kinds, messages, strict=True)
    )


def _kind_of(message: Mapping[str, object]) -> DraftKind:
    role = role_of(message)
    if role in SYSTEM_ROLES:
        name = message.get("name")
        return _NAMED.get(name, "template") if isinstance(name, str) else "template"
    if role in TOOL_ROLES or any(message.get(each) for each in _CALLS):
        return "tool"
    return "chat" if role in ("user", "assistant") else "template"


def spoken(draft: Sequence[DraftMessage]) -> tuple[SpokenMessage, ...]:
    """Return the real chat messages including the input, oldest first."""
    return tuple(
        SpokenMessage(
            role=role_of(item.message), name=_name_of(item.message), text=spoken_text(item.message)
        )
        for item in draft
        if item.kind in ("chat", "input")
    )


def character_text(draft: Sequence[DraftMessage]) -> str:
    """Return the texts of the character messages, joined by line breaks."""
    return "\n".join(spoken_text(item.message) for item in draft if item.kind == "character")


def find_name(draft: Sequence[DraftMessage], role: str) -> str | None:
    """Return the `name` of the newest chat message of a role; None without one."""
    return next((each.name for each in reversed(spoken(draft)) if each.role == role), None)


def _name_of(message: Mapping[str, object]) -> str | None:
    name = message.get("name")
    return name if isinstance(name, str) and name else None
