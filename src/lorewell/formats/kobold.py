"""KoboldAI and Kobold Lite: saves, world files and bare lists of entries.

Source: docs/rules/formats.md §9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.foreign_keys import any_of, expression_text, without
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import PERCENT, Members, comma_list
from lorewell.formats.notes import ImportNotes

_USUAL: Final = {"wigroup": ("",), "use_wpp": (False,)}


def read(document: Mapping[str, Any] | list[Any], _notes: ImportNotes) -> Lorebook:
    """Return the world info of a save, a world file or a list of entries.

    The rest of a save is kept in the book's `metadata.raw`. A save without world info is an empty
    book.
    """
    book, name = {"": document} if isinstance(document, list) else document, ""
    if isinstance(document, Mapping):
        name = "entries" if "folders" in document and "entries" in document else "worldinfo"
    return Lorebook(
        format=FileKind.KOBOLD,
        source_format=FileKind.KOBOLD,
        form="world_info",
        book=book,
        entries_name=name,
        read_entry=_read,
    )


def _read(raw: Mapping[str, Any], entry_id: str, steps: Steps) -> ImportedEntry:
    """Return an entry of any version of these programs; keys are lists or texts with commas."""
    members = Members(raw, steps)
    keys = members.keys("key", reader=comma_list)
    members.note_patterns(keys)
    fields: dict[str, Any] = {
        "title": members.title("title", "comment"),
        "content": members.content("content", "manual_text"),
        "keys": keys,
        "secondary_keys": members.keys("keysecondary", reader=comma_list),
        "selective": members.flag("selective"),
        "constant": members.flag("constant"),
        "enabled": not members.flag("widisabled"),
        "probability": members.read(_percent, 100, "probability"),
    }
    excluded = members.keys("keyanti", reader=comma_list)
    if excluded and fields["secondary_keys"]:
        fields |= _with_excluded(keys, excluded, members)
    elif excluded:
        fields |= {"secondary_keys": excluded, "selective": True, "logic": "not_any"}
    members.note_lost(_USUAL)
    return members.build_entry(entry_id, FileKind.KOBOLD, fields)


def _with_excluded(
    keys: tuple[str, ...], excluded: tuple[str, ...], members: Members
) -> dict[str, Any]:
    """Return the keys as an expression that excludes words; the secondary keys stay as they are."""
    expression = expression_text([without(any_of(keys), excluded)]) if keys else None
    if expression is None:
        message = "Excluded words are dropped: with these keys they make no key expression."
        members.note("not_kept", message)
        return {}
    message = f"Keys and excluded words are read as the key expression {v.shown(expression)}."
    members.note("key_expression_read", message)
    return {"keys": (), "key_expression": expression}


def _percent(value: object, notes: v.RepairNotes) -> object:
    """Return a probability; as Kobold Lite itself writes it as a text, that is not a repair."""
    own_notes = v.RepairNotes(at=notes.at)
    percent = PERCENT(value, own_notes)
    notes.repairs += [repair for repair in own_notes.repairs if repair.code != "number_from_text"]
    return percent
