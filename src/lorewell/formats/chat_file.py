"""SillyTavern's chat files: one line of JSON for the chat, then one for each message."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from lorewell.errors import FileTooLargeError, ImportInvalidError, MalformedJsonError
from lorewell.formats.json_text import storable
from lorewell.model.parse import parse_json

MAX_CHAT_BYTES: Final = 256 * 1024 * 1024  # swipes make files large, and only one is kept
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_CHAT_MESSAGES: Final = 500_000
MAX_CHAT_WARNINGS: Final = 100
_MARKS = b" \t\r\n\xef\xbb\xbf"
_HEAD = frozenset(["user_name", "character_name", "create_date", "chat_metadata"])
_NO_NAME = frozenset(["", "unused"])  # newer versions write this into the head of a chat


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message of the prompt.

    Attributes:
        name: its author.
        content: the chosen swipe.
        is_user: whether the user wrote it.
        line: its line in the file, from 1.
    """

    name: str
    content: str
    is_user: bool
    line: int


@dataclass(slots=True, kw_only=True)
class _Reading:
    head: Mapping[str, Any] = field(default_factory=dict)
    messages: list[ChatMessage] = field(default_factory=list)
    hidden: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFile:
    """The parts of a chat file that a scan uses.

    Attributes:
        user, char: their names, from the file's head, else from their last messages; empty if
            unknown.
        messages: the messages, without those hidden from the prompt.
        hidden: number of hidden messages.
        timed_state: SillyTavern's state of sticky and cooldown in this chat.
        book: name of the book that is bound to the chat.
        warnings: lines that were skipped, and repairs.
    """

    user: str
    char: str
    messages: tuple[ChatMessage, ...]
    hidden: int
    timed_state: dict[str, Any]
    book: str | None
    warnings: tuple[str, ...]


def load_chat(path: str | os.PathLike[str]) -> ChatFile:
    r"""Return the chat in a file of SillyTavern, JSON Lines in UTF-8.

    A byte order mark, blank lines and a truncated last line are accepted. Only names and texts are
    read, and nothing in them is run.

    Args:
        path: the file; at most 256 MiB, 16 MiB a line, and 500,000 messages.

    Raises:
        FileTooLargeError: the file or a line is larger, or the file has more messages.
        JsonTooLargeError: a line holds more than 2,000,000 values.
        ImportInvalidError: a line before the last one is not a JSON object, or the file has none;
            `details` hold the file's name as `file`.
        OSError: the file can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "chat.jsonl")
    ...     _ = file.write_text(
    ...         '{"user_name": "旅人"}\n{"name": "阿黛", "mes": "你醒了？"}', "utf-8"
    ...     )
    ...     chat = load_chat(file)
    >>> chat.user, chat.char, chat.messages[0].content
    ('旅人', '阿黛', '你醒了？')
    """
    name = storable(Path(path).name)
    with Path(path).open("rb") as file:
        read = _read(file, name)
    metadata = read.head.get("chat_metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    timed, book = metadata.get("timedWorldInfo"), metadata.get("world_info")
    return ChatFile(
        user=_named(read, "user_name", is_user=True),
        char=_named(read, "character_name", is_user=False),
        messages=tuple(read.messages),
        hidden=read.hidden,
        timed_state=timed if isinstance(timed, dict) else {},
        book=storable(book) if isinstance(book, str) and book else None,
        warnings=tuple(read.warnings),
    )


def _named(read: _Reading, member: str, *, is_user: bool) -> str:
    name = read.head.get(member)
    if isinstance(name, str) and name not in _NO_NAME:
        return storable(name)
    names = (message.name for message in reversed(read.messages) if message.is_user == is_user)
    return next(names, "")


def _read(file: BinaryIO, name: str) -> _Reading:
    reading = _Reading()
    broken: tuple[int, MalformedJsonError] | None = None
    found = False
    for number, line in _lines(file, name):
        if broken is not None:
            raise _invalid_chat(name, *broken)
        try:
            document = _object(line)
        except MalformedJsonError as error:
            broken = number, error
            continue
        if not found and "mes" not in document:
            if _HEAD.isdisjoint(document):
                names = ", ".join(sorted(_HEAD))
                message = f"Expected a message (mes) or the head of a chat ({names})."
                raise _invalid_chat(name, number, MalformedJsonError(message))
            reading.head = document
        else:
            _take(document, number, reading, name)
        found = True
    if broken is not None:
        if not found:
            raise _invalid_chat(name, *broken)
        reading.warnings.append(f"line {broken[0]}, the last one, is truncated and was skipped")
    elif not found:
        raise ImportInvalidError(f"{name} is empty.", file=name)
    return reading


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers; reading stops at the limits."""
    total = number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        total += len(line)
        for size, limit, what in (
            (len(line), MAX_LINE_BYTES, f"Line {number} of {name}"),
            (total, MAX_CHAT_BYTES, name),
        ):
            if size > limit:
                sentence = f"{what} is larger than {limit // 1024**2} MiB."
                raise FileTooLargeError(sentence, file=name, limit_bytes=limit)
        if line.strip(_MARKS):
            yield number, line


def _object(line: bytes) -> dict[str, Any]:
    document = parse_json(line)
    if not isinstance(document, dict):
        message = "Expected a JSON object."
        raise MalformedJsonError(message)
    return document


def _invalid_chat(name: str, number: int, error: MalformedJsonError) -> ImportInvalidError:
    return ImportInvalidError(
        f"{name} is not a SillyTavern chat: line {number} is invalid. {error}", file=name
    )


def _take(document: Mapping[str, Any], number: int, reading: _Reading, file_name: str) -> None:
    """Add a message; count it if it is hidden, warn if it has no text."""
    if document.get("is_system") is True:
        reading.hidden += 1
        return
    content = document.get("mes")
    if not isinstance(content, str):
        if len(reading.warnings) < MAX_CHAT_WARNINGS:
            reading.warnings.append(f"line {number} has no text and was skipped")
        return
    if len(reading.messages) == MAX_CHAT_MESSAGES:
        sentence = f"{file_name} holds more than {MAX_CHAT_MESSAGES:,} messages."
        raise FileTooLargeError(sentence, file=file_name, limit_messages=MAX_CHAT_MESSAGES)
    name = document.get("name")
    reading.messages.append(
        ChatMessage(
            name=storable(name) if isinstance(name, str) else "",
            content=storable(content),
            is_user=document.get("is_user") is True,
            line=number,
        )
    )
