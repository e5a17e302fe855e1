"""Chats in files: of SillyTavern, as a plain JSON list, or as messages of OpenAI's protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from lorewell.errors import ImportInvalidError, MalformedJsonError
from lorewell.formats.chat_file import MAX_LINE_BYTES, load_chat
from lorewell.formats.files import load_json
from lorewell.formats.json_text import storable
from lorewell.model.chat_replay import SpokenLine
from lorewell.model.entry import Role
from lorewell.model.parse import parse_json

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


class ChatTranscript(NamedTuple):
    """A chat.

    Attributes:
        lines: its messages, oldest first, without hidden ones and those of tools.
        user, char: the names of both sides; empty if unknown.
        warnings: what was skipped.
    """

    lines: tuple[SpokenLine, ...]
    user: str
    char: str
    warnings: tuple[str, ...]


def load_spoken(path: str | os.PathLike[str]) -> ChatTranscript:
    """Return the chat in a file.

    The file is a chat of SillyTavern (`.jsonl`), a JSON list of messages, or an object whose
    `messages` is such a list. A message has `role` and `content` as in OpenAI's protocol, or `mes`,
    `name` and `is_user` as in SillyTavern.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB, or than 256 MiB for SillyTavern's.
        ImportInvalidError: it is none of these; `details` hold the file's name as `file`.
        OSError: the file can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "chat.json")
    ...     _ = file.write_text('[{"role": "user", "content": "去灯塔看看"}]', "utf-8")
    ...     load_spoken(file).lines
    (SpokenLine(role='user', name='', content='去灯塔看看'),)
    """
    if not _is_one_document(path):
        chat = load_chat(path)
        lines = tuple(
            SpokenLine("user" if each.is_user else "assistant", each.name, each.content)
            for each in chat.messages
        )
        return ChatTranscript(lines, chat.user, chat.char, chat.warnings)
    document, name = load_json(path), storable(Path(path).name)
    if isinstance(document, dict):
        document = document.get("messages")
    if not isinstance(document, list):
        message = f"{name} is not a chat: expected a list of messages, or an object with one."
        raise ImportInvalidError(message, file=name)
    read = [_line(each) for each in document]
    lines = tuple(each for each in read if each is not None)
    skipped = len(read) - len(lines)
    names = {line.role: line.name for line in lines if line.name}
    return ChatTranscript(
        lines,
        names.get("user", ""),
        names.get("assistant", ""),
        (f"{skipped} messages have no text or role and were skipped",) if skipped else (),
    )


def _is_one_document(path: str | os.PathLike[str]) -> bool:
    """Return whether the file is one JSON document, and not one in each line."""
    with Path(path).open("rb") as file:
        first = file.readline(MAX_LINE_BYTES + 1)
    try:
        document = parse_json(first.removeprefix(b"\xef\xbb\xbf"))
    except MalformedJsonError:
        return first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or len(first.strip()) == 1
    return not isinstance(document, dict) or isinstance(document.get("messages"), list)


def _line(message: object) -> SpokenLine | None:
    """Return a message; None if it has no text, or is one of a tool."""
    if not isinstance(message, dict):
        return None
    content = _text(message)
    role = _ROLES.get(str(message.get("role", "")))
    if role is None and "role" not in message:
        role = "user" if message.get("is_user") is True else "assistant"
    if content is None or role is None or message.get("is_system") is True:
        return None
    name = message.get("name")
    return SpokenLine(role, storable(name) if isinstance(name, str) else "", storable(content))


def _text(message: Mapping[str, Any]) -> str | None:
    content = message.get("content", message.get("mes"))
    if isinstance(content, list):  # parts, of which only texts count
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else None
