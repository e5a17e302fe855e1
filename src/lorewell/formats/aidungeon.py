"""AI Dungeon: lists of world info and story cards (docs/rules/formats.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.engine.sillytavern.entry import ImportedEntry
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook, list_book
from lorewell.formats.members import Members, comma_list
from lorewell.formats.notes import ImportNotes


def read(document: list[Any], _notes: ImportNotes) -> Lorebook:
    """Return the list as a book without a name."""
    return list_book(FileKind.AIDUNGEON_WI, document, _read)


def _read(raw: Mapping[str, Any], entry_id: str, steps: Steps) -> ImportedEntry:
    """Return an entry; patterns of EWIJSON scripts become plain keys."""
    members = Members(raw, steps)
    keys = members.keys("keys", reader=comma_list)
    members.note_patterns(keys)
    fields = {
        "title": members.title("title"),
        "content": members.content("entry", "value"),
        "keys": keys,
    }
    return members.build_entry(entry_id, FileKind.AIDUNGEON_WI, fields)
