"""Decorators of character cards V3 at the start of a content, read into fields of ours.

Only those are read that mean the same as a field, whatever else the entry says; the rest stays in
the content. Source: docs/rules/formats.md §3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from lorewell.engine.sillytavern.entry.table import MAX_DEPTH, MAX_SCAN_DEPTH, ROLES, ByName
from lorewell.model.entry import MAX_CONTENT_CHARS

MAX_LINES: Final = 1_000  # of a block; one with more means nothing here
_MARK: Final = "@@"
_FALLBACK: Final = "@@@"
_BLANKS: Final = re.compile(r"\s*+")
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_SIDES: Final = {"before_desc": "before_character", "after_desc": "after_character"}


class DecoratedContent(NamedTuple):
    """A content whose leading decorators were looked at.

    Attributes:
        lines: those that were understood, as written, each with its line end.
        values: what they say, by the names of the table of fields.
        kept: those that mean nothing here; they still lead the content.
        content: what is left.
    """

    lines: str
    values: ByName
    kept: tuple[str, ...]
    content: str


class _Group(NamedTuple):
    """A decorator with its fallbacks."""

    lines: tuple[str, ...]
    name: str  # of the one that was understood, else of the first
    values: ByName | None  # None where none was understood


def read_decorators(content: str) -> DecoratedContent:
    r"""Return what the leading decorators say, and the content without those that were understood.

    Of a name the first one counts. A place that beats another one here is beaten by none: where
    `position` is not understood, `depth` is not either. Nothing is read from a content of over
    200,000 characters, nor from a block of over 1,000 lines.

    >>> found = read_decorators("@@depth 2\n@@unknown\n@@@role user\n\nText")
    >>> dict(found.values), found.content
    ({'role': 'user', 'position': 'at_depth', 'depth': 2}, 'Text')
    >>> read_decorators("@@is_greeting 1\nText").content
    '@@is_greeting 1\nText'
    """
    block, text = _split(content)
    groups = [] if text is None else _ranked(list(_groups(block)))
    understood = [(group.lines, group.values) for group in groups if group.values is not None]
    if text is None or not understood:
        return DecoratedContent("", {}, tuple(line.strip() for line in block), content)
    values: ByName = {}
    for _, told in understood:
        values = {**told, **values}
    kept = [line for group in groups if group.values is None for line in group.lines]
    return DecoratedContent(
        lines="".join(line for lines, _ in understood for line in lines),
        values=values,
        kept=tuple(line.strip() for line in kept),
        content="".join(kept) + text if kept else text[_blank_end(text) :],
    )


def _blank_end(text: str, at: int = 0) -> int:
    """Return where the blank lines end that begin there."""
    found = _BLANKS.match(text, at)
    line_end = text.rfind("\n", at, found.end()) if found else -1
    return at if line_end < 0 else line_end + 1


def _split(content: str) -> tuple[list[str], str | None]:
    """Return the lines of the block, and the text behind it; None where nothing is to be read."""
    if len(content) > MAX_CONTENT_CHARS:  # it can't be stored
        return [], None
    at = _blank_end(content)
    block: list[str] = []
    while content.startswith(_MARK, at):
        if len(block) == MAX_LINES:
            return [], None
        end = content.find("\n", at)
        if end < 0:  # nothing but decorators: SillyTavern takes them for the text
            return [*block, content[at:]], None
        block.append(content[at : end + 1])
        at = end + 1
    # What follows blank lines is text; read as such once, it has to stay text the next time.
    is_second = content.startswith(_MARK, _blank_end(content, at))
    return block, None if is_second or not block else content[at:]


def _groups(block: list[str]) -> Iterator[_Group]:
    lines: list[str] = []
    for line in block:
        if lines and not line.startswith(_FALLBACK):
            yield _resolved(lines)
            lines = []
        lines.append(line)
    yield _resolved(lines)


def _resolved(lines: list[str]) -> _Group:
    """Return the group with what the first of its decorators says that is understood."""
    names = []
    for line in lines:
        name, _, told = line.strip().lstrip("@").partition(" ")
        names.append(name)
        read = _READERS.get(name)
        values = read(told.strip()) if read else None
        if values is not None:
            return _Group(tuple(lines), name, values)
    return _Group(tuple(lines), names[0], None)


def _ranked(groups: list[_Group]) -> list[_Group]:
    """Return the groups; a `depth` counts only where no `position` stands above it."""
    places = [group.values for group in groups if group.name == "position"]
    if not places:
        return groups
    beaten: ByName | None = {} if places[0] is not None else None
    return [
        group._replace(values=beaten) if group.name == "depth" and group.values else group
        for group in groups
    ]


def _depth(told: str) -> ByName | None:
    if not _WHOLE.fullmatch(told):
        return None
    return {"position": "at_depth", "depth": min(max(int(told), 0), MAX_DEPTH)}


def _role(told: str) -> ByName | None:
    return {"role": told} if told in ROLES else None


def _scan_depth(told: str) -> ByName | None:
    if _WHOLE.fullmatch(told) and 0 <= int(told) <= MAX_SCAN_DEPTH:
        return {"scan_depth": int(told)}
    return None


def _position(told: str) -> ByName | None:
    return {"position": _SIDES[told]} if told in _SIDES else None


def _activate(told: str) -> ByName | None:
    return None if told else {"constant": True}


_READERS: Final[Mapping[str, Callable[[str], ByName | None]]] = {
    "activate": _activate,
    "depth": _depth,
    "position": _position,
    "role": _role,
    "scan_depth": _scan_depth,
}
