"""Agnai: memory books, alone or in a character (docs/rules/formats.md §7)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind, find_object
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
    fields = {
        "title": members.title("name", "comment"),
        "content": members.content("entry", "content"),
        "keys": members.keys("keywords", "keys"),
        "secondary_keys": members.keys("secondary_keys"),
        "selective": members.flag("selective"),
        "enabled": members.flag("enabled", default=True),
        "constant": members.flag("constant"),
        "case_sensitive": members.flag("case_sensitive"),
        "order": members.read(LEVEL, USUAL_ORDER, "weight", "insertion_order"),
        "priority": members.read(LEVEL, 0, "priority"),
        "position": members.read(_SIDE, _SIDES[0], "position"),
    }
    return members.build_entry(entry_id, kind, fields)
