"""Chats as plain JSON: a list of messages, or an object that holds one as `messages`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorewell.errors import ImportInvalidError
from lorewell.formats.chat_file import ChatFile, ChatMessage, load_chat
from lorewell.formats.files import load_json
from lorewell.formats.json_text import storable

_TEXTS = ("content", "mes", "text")


def load_any_chat(path: str | os.PathLike[str]) -> ChatFile:
    """Return the chat in a plain JSON file (`.json`) or in a chat file of SillyTavern.

    A plain message has its text as `content`, `mes` or `text`, and `role` or `is_user`, and may
    have a `name`. The parts of an OpenAI message are joined. System messages are hidden.

    Raises:
        ImportInvalidError: the file is not a chat.
        FileTooLargeError: it is larger than 16 MiB, or, for SillyTavern's, as `load_chat` says.
        OSError: the file can't be read.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        return load_chat(path)
    document = load_json(path)
    listed = document.get("messages") if isinstance(document, dict) else document
    name = storable(path.name)
    if not isinstance(listed, list):
        message = f"{name} is not a chat: expected a list of messages, or an object with one."
        raise ImportInvalidError(message, file=name)
    messages: list[ChatMessage] = []
    hidden = 0
    warnings = []
    for number, item in enumerate(listed, 1):
        content = _text(item)
        if content is None:
            warnings.append(f"message {number} has no text and was skipped")
        elif item.get("role") == "system" or item.get("is_system") is True:
            hidden += 1
        else:
            messages.append(_message(item, content, number))
    return ChatFile(
        user=_last_name(messages, is_user=True),
        char=_last_name(messages, is_user=False),
        messages=tuple(messages),
        hidden=hidden,
        timed_state={},
        book=None,
        warnings=tuple(warnings),
    )


def _message(item: Mapping[str, Any], content: str, number: int) -> ChatMessage:
    name = item.get("name")
    return ChatMessage(
        name=storable(name) if isinstance(name, str) else "",
        content=storable(content),
        is_user=item.get("role") == "user" or item.get("is_user") is True,
        line=number,
    )


def _text(item: object) -> str | None:
    """Return the text of a message; None if it has none."""
    if not isinstance(item, dict):
        return None
    value = next((item[name] for name in _TEXTS if name in item), None)
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else None


def _last_name(messages: list[ChatMessage], *, is_user: bool) -> str:
    names = (each.name for each in reversed(messages) if each.is_user == is_user)
    return next(names, "")
