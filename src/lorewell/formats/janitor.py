"""JanitorAI: lists of lorebook entries (docs/rules/formats.md §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook, list_book
from lorewell.formats.members import LEVEL, LOGIC, PERCENT, USUAL_ORDER, Members, comma_list
from lorewell.formats.notes import ImportNotes
from lorewell.model.sillytavern import MAX_WEIGHT
from lorewell.model.text import is_blank

_USUAL: Final = {"keyMatchPriority": (False,), "activationMode": ("standard", "")}
_USUAL_WEIGHT: Final = 100
_WEIGHT: Final = v.number(0, MAX_WEIGHT)


def read(document: list[Any], _notes: ImportNotes) -> Lorebook:
    """Return the list as a book without a name."""
    return list_book(FileKind.JANITOR, document, _read)


def _read(raw: Mapping[str, Any], entry_id: str, steps: Steps) -> ImportedEntry:
    """Return an entry; its lists of keys win over the texts that repeat them.

    A script is kept but never run: it blocks the entry.
    """
    members = Members(raw, steps)
    secondary = members.keys("keysecondary", "keysecondaryRaw", reader=comma_list)
    conflict_key, groups = members.group("inclusionGroupRaw")
    block = {
        "group": groups,
        "group_override": members.flag("prioritizeInclusion"),
        "group_weight": members.read(_WEIGHT, _USUAL_WEIGHT, "groupWeight"),
        "delay": members.read(v.turns, None, "minMessages"),
    }
    if groups:
        message = f"{v.shown(groups)} names several groups: none is used."
        members.note("several_groups", message, "inclusionGroupRaw")
    fields = {
        "title": members.title("name", "comment"),
        "content": members.content("content"),
        "keys": members.keys("key", "keysRaw", "keywordsRaw", reader=comma_list),
        "secondary_keys": secondary,
        "selective": bool(secondary),
        "logic": members.read(LOGIC, "and_any", "selectiveLogic"),
        "enabled": members.flag("enabled", default=True),
        "constant": members.flag("constant"),
        "case_sensitive": members.choice("case_sensitive"),
        "match_whole_words": members.choice("matchWholeWords"),
        "order": members.read(LEVEL, USUAL_ORDER, "insertion_order"),
        "priority": members.read(LEVEL, 0, "priority"),
        "probability": members.read(PERCENT, 100, "probability"),
        "conflict_key": conflict_key,
        "sillytavern": block,
    }
    members.note_lost(_USUAL)
    needs = {"delay": "minMessages"} if block["delay"] else {}
    if _holds_script(raw.get("activationScript")):
        needs["script"] = "activationScript"
    members.know("activationScript")
    return members.build_entry(entry_id, FileKind.JANITOR, fields, needs)


def _holds_script(script: object) -> bool:
    return not is_blank(script) if isinstance(script, str) else bool(script)
