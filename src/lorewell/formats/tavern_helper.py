"""Entries in the shape of TavernHelper, an extension of SillyTavern that scripts worlds.

Source: docs/rules/formats.md §15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.sillytavern.entry.table import LOGICS, MAX_DEPTH, MAX_SCAN_DEPTH, ROLES
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook, list_book
from lorewell.formats.members import LEVEL, PERCENT, USUAL_ORDER, Members, comma_list
from lorewell.formats.notes import ImportNotes

_POSITIONS: Final = {
    "before_character_definition": "before_character",
    "after_character_definition": "after_character",
    "before_example_messages": "before_examples",
    "after_example_messages": "after_examples",
    "before_author_note": "author_note_top",
    "after_author_note": "author_note_bottom",
    "at_depth": "at_depth",
}
_POSITION: Final = v.choice((), _POSITIONS, _POSITIONS)
_ROLE: Final = v.choice((), {role: role for role in ROLES}, ROLES)
_LOGIC: Final = v.choice((), {logic: logic for logic in LOGICS}, LOGICS)
_TYPES: Final = ("constant", "selective", "vectorized")
_TYPE: Final = v.choice((), {kind: kind for kind in _TYPES}, _TYPES)
_DEPTH: Final = v.integer(0, MAX_DEPTH)
_USUAL_DEPTH: Final = 4
_AS_THE_SETTINGS: Final = "same_as_global"


def read(document: Mapping[str, Any] | list[Any], _notes: ImportNotes) -> Lorebook:
    """Return the book: an object with `entries`, or the list itself."""
    if isinstance(document, list):
        return list_book(FileKind.TAVERN_HELPER, document, _read)
    return Lorebook(
        format=FileKind.TAVERN_HELPER,
        source_format=FileKind.TAVERN_HELPER,
        form="world_info",
        book=document,
        read_entry=_read,
    )


def _read(raw: Mapping[str, Any], entry_id: str, steps: Steps) -> ImportedEntry:
    members = Members(raw, steps)
    kind = members.read(_TYPE, "selective", "strategy/type")
    secondary = members.keys("strategy/keys_secondary/keys", reader=comma_list)
    block = {
        "vectorized": kind == "vectorized",
        "sticky": members.read(v.turns, None, "effect/sticky"),
        "cooldown": members.read(v.turns, None, "effect/cooldown"),
        "delay": members.read(v.turns, None, "effect/delay"),
        "delay_until_recursion": members.read(v.level, 0, "recursion/delay_until"),
    }
    fields = {
        "title": members.title("name", "comment"),
        "content": members.content("content"),
        "enabled": members.flag("enabled", default=True),
        "constant": kind == "constant",
        "keys": members.keys("strategy/keys", reader=comma_list),
        "secondary_keys": secondary,
        "selective": bool(secondary),
        "logic": members.read(_LOGIC, "and_any", "strategy/keys_secondary/logic"),
        "scan_depth": members.read(_scan_depth, None, "strategy/scan_depth"),
        "position": members.read(_POSITION, "before_character", "position/type"),
        "role": members.read(_ROLE, "system", "position/role"),
        "depth": members.read(_DEPTH, _USUAL_DEPTH, "position/depth"),
        "order": members.read(LEVEL, USUAL_ORDER, "position/order"),
        "probability": members.read(PERCENT, 100, "probability"),
        "exclude_recursion": members.flag("recursion/prevent_incoming"),
        "prevent_recursion": members.flag("recursion/prevent_outgoing"),
        "sillytavern": block,
    }
    if block["vectorized"]:
        message = "The native policy does not search by vectors for an entry of this kind."
        members.note("ignored_field", message, "strategy/type")
    timed = ("sticky", "cooldown", "delay")
    needs = {name: f"effect/{name}" for name in timed if block[name]}
    if block["delay_until_recursion"]:
        needs["delay_until_recursion"] = "recursion/delay_until"
    return members.build_entry(entry_id, FileKind.TAVERN_HELPER, fields, needs)


def _scan_depth(value: object, notes: v.RepairNotes) -> object:
    """Return the number of messages to scan; None for the word that leaves it to the settings."""
    return None if value == _AS_THE_SETTINGS else v.integer(0, MAX_SCAN_DEPTH)(value, notes)
