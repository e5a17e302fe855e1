"""Finds imported entries that nothing can trigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorewell.engine.replica.triggers import derive_config, read_triggers
from lorewell.formats.detect import FileKind
from lorewell.formats.notes import ImportNotes
from lorewell.model.entry import Entry
from lorewell.model.text import is_blank


def note_untriggered(entries: Sequence[Entry], notes: ImportNotes) -> None:
    """Note the enabled entries without a trigger that no other entry requires."""
    needed = {entry_id for entry in entries for entry_id in entry.requires}
    for entry in entries:
        if entry.enabled and entry.id not in needed and not _has_trigger(entry):
            message = "the entry is enabled, but has no keys and no other trigger"
            notes.add("no_trigger", message, entry.id)


def _has_trigger(entry: Entry) -> bool:
    if entry.constant or entry.required or entry.key_expression:
        return True
    if not all(map(is_blank, entry.keys)):
        return True
    if entry.sillytavern is not None and entry.sillytavern.vectorized:
        return True
    return entry.source.get("format") == FileKind.REPLICA and _fires_in_replica(entry)


def _fires_in_replica(entry: Entry) -> bool:
    """Return whether an entry of SillyTavern_replica has a trigger that native fields lack."""
    config = (entry.replica or {}).get("trigger_config")
    if not isinstance(config, Mapping):
        config = derive_config(entry.source["raw"])
    triggers = read_triggers(config)
    found = (triggers.conditions, triggers.rag, triggers.logic)
    return triggers.constant or any(each is not None for each in found)
