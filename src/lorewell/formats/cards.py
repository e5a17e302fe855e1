"""Character cards V1, V2 and V3: only the book is read (docs/rules/formats.md §2, §3, §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.errors import Fault, ImportInvalidError
from lorewell.formats.detect import CARD_SPEC, FileKind, find_object, type_name
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes, cut

_BOOK = "character_book"
_NEWEST_SPEC = 3
_SHOWN_CHARS = 40


def read_v1(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return the book of a flat card; most have none."""
    return Lorebook(
        format=FileKind.CARD_V1,
        source_format=FileKind.CHARACTER_BOOK,
        form="card",
        book=find_object(document, _BOOK),
        at=(_BOOK,),
        card_name=document.get("name"),
    )


def read_v2(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the book of a card V2."""
    return _read(document, FileKind.CARD_V2, notes)


def read_v3(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the book of a card V3 or newer; a newer version is noted."""
    return _read(document, FileKind.CARD_V3, notes)


def _read(document: Mapping[str, Any], kind: FileKind, notes: ImportNotes) -> Lorebook:
    """Return the book in `data`, else the one at the top level.

    Raises:
        ImportInvalidError: there is neither `data` nor a book at the top level, or the book is not
            an object.
    """
    data = document.get("data")
    at: tuple[str, ...] = ("data", _BOOK)
    book = find_object(document, "data", _BOOK)
    if book is None:
        at, book = (_BOOK,), find_object(document, _BOOK)
    if book is None and not isinstance(data, dict):
        fault = Fault("/data", f"data is missing: must be an object, is {type_name(data)}")
        raise ImportInvalidError.at(fault)
    named = data if isinstance(data, dict) else document
    return Lorebook(
        format=kind,
        source_format=_spec(document, notes),
        form="card",
        book=book,
        at=at,
        card_name=named.get("name"),
    )


def _spec(document: Mapping[str, Any], notes: ImportNotes) -> str:
    """Return the card's `spec`; newer ones are noted, not refused."""
    spec = document.get("spec")
    found = CARD_SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if found is None:
        notes.add("spec_missing", "the card has no valid spec; it is read as chara_card_v2")
        return "chara_card_v2"
    number = int(found[1])
    version = _version(document.get("spec_version"))
    if number > _NEWEST_SPEC or version >= number + 1:
        shown = cut(str(document.get("spec_version")), _SHOWN_CHARS)
        notes.add(
            "newer_version",
            f"the card is {found[0]}, version {shown}; members new in it are unknown here",
        )
    return found[0]


def _version(value: object) -> float:
    """Return a version as a number; 0 if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return float(value)
    except (ValueError, OverflowError):
        return 0
