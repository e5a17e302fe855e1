"""Agnai: memory books, alone or in a character (docs/rules/formats.md §7)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind, find_object
from lorewell.formats.foreign_keys import has_wildcard, wildcard_key
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import LEVEL, USUAL_ORDER, Members
from lorewell.formats.notes import ImportNotes

_BOOK: Final = "characterBook"
_SIDES: Final = ("before_character", "after_character")
_SIDE: Final = v.choice(
    _SIDES,
    {"before_char": _SIDES[0], "after_char": _SIDES[1]},
    frozenset(["before_char", "after_char"]),
)


def read_memory(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return a stand-alone memory book."""
    return _lorebook(FileKind.AGNAI_MEMORY, document)


def read_character(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return the memory book of a character.

    Raises:
        ImportInvalidError: the book is not an object.
    """
    book = find_object(document, _BOOK)
    return _lorebook(FileKind.AGNAI_CHARACTER, book, at=(_BOOK,), name=document.get("name"))


def _lorebook(
    kind: FileKind,
    book: Mapping[str, Any] | None,
    *,
    at: tuple[str, ...] = (),
    name: object = None,
) -> Lorebook:
    return Lorebook(
        format=kind,
        source_format=kind,
        form="card",
        book=book,
        at=at,
        card_name=name,
        read_entry=partial(_read, kind=kind),
    )


def _read(raw: Mapping[str, Any], entry_id: str, steps: Steps, *, kind: FileKind) -> ImportedEntry:
    """Return an entry; Agnai's own names count before those of a card.

    `weight` is the entry's place, `priority` decides which entry is kept.
    """
    members = Members(raw, steps)
    keywords = members.keys("keywords", "keys")
    keys = _keys(keywords, members)
    fields = {
        "title": members.title("name", "comment"),
        "content": members.content("entry", "content"),
        "keys": keys,
        "secondary_keys": members.keys("secondary_keys"),
        "selective": members.flag("selective"),
        "enabled": members.flag("enabled", default=True),
        "constant": members.flag("constant") or any(map(_is_always, keywords)),
        "match_whole_words": True,
        "case_sensitive": members.choice("case_sensitive"),
        "order": members.read(LEVEL, USUAL_ORDER, "weight", "insertion_order"),
        "priority": members.read(LEVEL, 0, "priority"),
        "position": members.read(_SIDE, _SIDES[0], "position"),
    }
    return members.build_entry(entry_id, kind, fields)


def _is_always(keyword: str) -> bool:
    """Return whether a keyword is nothing but wildcards for any text."""
    return bool(keyword.strip()) and not keyword.strip().strip("*")


def _keys(keywords: tuple[str, ...], members: Members) -> tuple[str, ...]:
    """Return the keywords as keys; wildcards become regex keys."""
    keys = []
    for keyword in keywords:
        trimmed = keyword.strip()
        if _is_always(keyword):
            members.note("always_on", f"The keyword {v.shown(trimmed)} matches any text.")
        elif not has_wildcard(trimmed):
            keys.append(keyword)
        elif (regex := wildcard_key(trimmed)) is None:
            message = f"The wildcards of {v.shown(trimmed)} make too long a regex; it is plain."
            members.note("not_kept", message)
            keys.append(keyword)
        else:
            members.note("wildcards_read", f"The keyword {v.shown(trimmed)} is read as a regex.")
            keys.append(regex)
    return tuple(keys)
