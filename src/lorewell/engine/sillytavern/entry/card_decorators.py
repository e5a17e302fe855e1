"""Reads the decorators of character cards V3 at the start of a content into our fields.

Only decorators with the meaning of a field are read; the others stay in the content.
Source: docs/rules/formats.md §3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from lorewell.engine.sillytavern.entry.table import MAX_DEPTH, MAX_SCAN_DEPTH, ROLES, ByName
from lorewell.model.entry import MAX_CONTENT_CHARS

MAX_LINES: Final = 1_000  # of a block; a longer block is not read
_MARK: Final = "@@"
_FALLBACK: Final = "@@@"
_BLANKS: Final = re.compile(r"\s*+")
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_SIDES: Final = {"before_desc": "before_character", "after_desc": "after_character"}


class DecoratedContent(NamedTuple):
    """A content and its leading decorators.

    Attributes:
        lines: the decorators that were read, as written, each with its line end.
        values: their values, by the field names of the table.
        kept: the decorators that were not read; they still lead the content.
        content: the content without the decorators that were read.
    """

    lines: str
    values: ByName
    kept: tuple[str, ...]
    content: str


class _DecoratorGroup(NamedTuple):
    """A decorator with its fallbacks."""

    lines: tuple[str, ...]
    name: str  # of the decorator that was read, else of the first one
    values: ByName | None  # None if none was read


def read_decorators(content: str) -> DecoratedContent:
    r"""Read the leading decorators of a content.

    The first decorator of a name counts. `position` overrides `depth`, even if the position can't
    be read: then neither is. Nothing is read from a content of more than 200,000 characters or
    from a block of more than 1,000 lines.

    >>> found = read_decorators("@@depth 2\n@@unknown\n@@@role user\n\nText")
    >>> dict(found.values), found.content
    ({'role': 'user', 'position': 'at_depth', 'depth': 2}, 'Text')
    >>> read_decorators("@@is_greeting 1\nText").content
    '@@is_greeting 1\nText'
    """
    block, text = _split(content)
    groups = [] if text is None else _drop_overridden_depth(list(_groups(block)))
    read = [(group.lines, group.values) for group in groups if group.values is not None]
    if text is None or not read:
        return DecoratedContent("", {}, tuple(line.strip() for line in block), content)
    values: ByName = {}
    for _, group_values in read:
        values = {**group_values, **values}
    kept = [line for group in groups if group.values is None for line in group.lines]
    return DecoratedContent(
        lines="".join(line for lines, _ in read for line in lines),
        values=values,
        kept=tuple(line.strip() for line in kept),
        content="".join(kept) + text if kept else text[_blank_end(text) :],
    )


def _blank_end(text: str, at: int = 0) -> int:
    """Return the end of the blank lines that start at `at`."""
    found = _BLANKS.match(text, at)
    line_end = text.rfind("\n", at, found.end()) if found else -1
    return at if line_end < 0 else line_end + 1


def _split(content: str) -> tuple[list[str], str | None]:
    """Return the lines of the block and the text after it; None if nothing can be read."""
    if len(content) > MAX_CONTENT_CHARS:  # too long to be stored
        return [], None
    at = _blank_end(content)
    block: list[str] = []
    while content.startswith(_MARK, at):
        if len(block) == MAX_LINES:
            return [], None
        end = content.find("\n", at)
        if end < 0:  # only decorators: SillyTavern treats them as text
            return [*block, content[at:]], None
        block.append(content[at : end + 1])
        at = end + 1
    # Decorators after blank lines are text. Written back, they must be read as text again.
    is_second = content.startswith(_MARK, _blank_end(content, at))
    return block, None if is_second or not block else content[at:]


def _groups(block: list[str]) -> Iterator[_DecoratorGroup]:
    lines: list[str] = []
    for line in block:
        if lines and not line.startswith(_FALLBACK):
            yield _read_group(lines)
            lines = []
        lines.append(line)
    yield _read_group(lines)


def _read_group(lines: list[str]) -> _DecoratorGroup:
    """Read the first decorator of a group that can be read."""
    names = []
    for line in lines:
        name, _, argument = line.strip().lstrip("@").partition(" ")
        names.append(name)
        read = _READERS.get(name)
        values = read(argument.strip()) if read else None
        if values is not None:
            return _DecoratorGroup(tuple(lines), name, values)
    return _DecoratorGroup(tuple(lines), names[0], None)


def _drop_overridden_depth(groups: list[_DecoratorGroup]) -> list[_DecoratorGroup]:
    """Drop the values of `depth` if there is a `position`."""
    positions = [group.values for group in groups if group.name == "position"]
    if not positions:
        return groups
    overridden: ByName | None = {} if positions[0] is not None else None
    return [
        group._replace(values=overridden) if group.name == "depth" and group.values else group
        for group in groups
    ]


def _depth(argument: str) -> ByName | None:
    if not _WHOLE.fullmatch(argument):
        return None
    return {"position": "at_depth", "depth": min(max(int(argument), 0), MAX_DEPTH)}


def _role(argument: str) -> ByName | None:
    return {"role": argument} if argument in ROLES else None


def _scan_depth(argument: str) -> ByName | None:
    if _WHOLE.fullmatch(argument) and 0 <= int(argument) <= MAX_SCAN_DEPTH:
        return {"scan_depth": int(argument)}
    return None


def _position(argument: str) -> ByName | None:
    return {"position": _SIDES[argument]} if argument in _SIDES else None


def _activate(argument: str) -> ByName | None:
    return None if argument else {"constant": True}


_READERS: Final[Mapping[str, Callable[[str], ByName | None]]] = {
    "activate": _activate,
    "depth": _depth,
    "position": _position,
    "role": _role,
    "scan_depth": _scan_depth,
}
