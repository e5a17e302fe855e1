"""Backyard: the lore items of a character (docs/rules/formats.md §11)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import USUAL_ORDER, Members, comma_list
from lorewell.formats.notes import ImportNotes

_ITEMS: Final = "loreItems"
_NAMES: Final = {"{character}": "{{char}}", "{user}": "{{user}}"}


def read(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return the lore items of a character as a book; they are printed in their own order."""
    items = document.get(_ITEMS)
    places = {id(item): at for at, item in enumerate(items if isinstance(items, list) else [])}
    name = document.get("displayName")
    return Lorebook(
        format=FileKind.BACKYARD,
        source_format=FileKind.BACKYARD,
        form="card",
        book={own: value for own, value in document.items() if own != "name"},
        card_name=name if isinstance(name, str) and name else document.get("name"),
        entries_name=_ITEMS,
        read_entry=partial(_read, places=places),
    )


def _read(
    raw: Mapping[str, Any], entry_id: str, steps: Steps, *, places: Mapping[int, int]
) -> ImportedEntry:
    members = Members(raw, steps)
    content = members.content("value")
    for name, macro in _NAMES.items():
        content = content.replace(name, macro)
    fields = {
        "title": "",
        "content": content,
        "keys": members.keys("key", reader=comma_list),
        "order": places.get(id(raw), USUAL_ORDER),
    }
    members.know("createdAt", "updatedAt", "order")
    return members.build_entry(entry_id, FileKind.BACKYARD, fields)
