"""Entries in the internal form of SillyTavern_replica: shown, taken, and changed member by member.

Source: docs/rules/replica.md §1.3, §6.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from lorewell.engine.replica.values import as_uid
from lorewell.errors import Fault, ValidationFailedError
from lorewell.formats import replica
from lorewell.formats.build import build_book
from lorewell.formats.detect import FileKind, find_kind
from lorewell.formats.export.replica import replica_entry
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes
from lorewell.formats.registry import read_lorebook
from lorewell.model import BookCreate, Entry
from lorewell.model.book import MAX_ENTRIES
from lorewell.model.parse import parse_model
from lorewell.model.text import MAX_NESTING, canonical_json

_FIRST: Final = "/entries/0"
_LISTS: Final = frozenset({FileKind.CHARACTER_BOOK, FileKind.REPLICA})
_KEPT: Final = frozenset({"id", "source"})


def show_entry(entry: Entry) -> dict[str, Any]:
    """Return an entry in the internal form; its uid is its id, which no other entry has."""
    return {**replica_entry(entry), "uid": entry.id}


def read_worldbook(document: object, notes: ImportNotes, new_id: Callable[[], str]) -> Lorebook:
    """Return the book in a document as that program tells its forms apart: by their shape.

    A map of entries is SillyTavern's form, unless they have triggers; a list is the internal form,
    also where no entry has triggers. What is neither is read as any file.

    Args:
        document: JSON; it is not changed.
        notes: takes what was mended.
        new_id: names an entry of a list that has no uid; one of a map is called by its key.

    Raises:
        ImportInvalidError: it is of no known kind, or broken.
    """
    if not isinstance(document, dict):
        return read_lorebook(document, notes)
    entries = document.get("entries")
    if not isinstance(entries, dict | list) or len(entries) > MAX_ENTRIES:
        return read_lorebook(document, notes)
    if isinstance(entries, dict):
        named = {key: _named(raw, partial(str, key)) for key, raw in entries.items()}
        return read_lorebook({**document, "entries": named}, notes)
    if find_kind(document) in _LISTS and not _of_card(entries):
        return replica.read(
            {**document, "entries": [_named(raw, new_id) for raw in entries]}, notes
        )
    return read_lorebook(document, notes)


def _named(raw: object, make_uid: Callable[[], str]) -> object:
    if not isinstance(raw, dict) or as_uid(raw.get("uid")) is not None:
        return raw
    return {**raw, "uid": make_uid()}


def _of_card(entries: Sequence[object]) -> bool:
    """Return whether a list is that of a card's book, which has its keys under another name."""
    first = next((raw for raw in entries if isinstance(raw, dict)), {})
    return "keys" in first


def take_book(document: Mapping[str, Any], new_id: Callable[[], str]) -> BookCreate:
    """Return a book in one of that program's forms, read as `read_worldbook` does.

    Raises:
        ValidationFailedError: an entry breaks a limit of the contract; the faults are pointers.
    """
    notes = ImportNotes()
    lorebook = read_worldbook(document, notes, new_id)
    return build_book(lorebook, file_name="", depth=MAX_NESTING, notes=notes)


def take_entry(raw: Mapping[str, Any]) -> Entry:
    """Return an entry of the internal form, which has a uid, as an entry of ours.

    Raises:
        ValidationFailedError: it breaks a limit of the contract; the faults are pointers into it.
    """
    notes = ImportNotes()
    lorebook = replica.read({"entries": [dict(raw)]}, notes)
    try:
        book = build_book(lorebook, file_name="", depth=MAX_NESTING, notes=notes)
    except ValidationFailedError as error:
        raise (error.moved(_of_entry) if error.faults else error) from error
    return book.entries[0]


def change_entry(entry: Entry, given: Mapping[str, Any]) -> Entry:
    """Return an entry with some members of the internal form changed, and all else as it was.

    What the internal form can't say stays; so does all of it that these members do not change.

    Raises:
        ValidationFailedError: it breaks a limit of the contract; the faults are pointers into it.
    """
    shown = show_entry(entry)
    before, after = take_entry(shown), take_entry({**shown, **given, "uid": entry.id})
    changed = {
        name: value
        for name, value in after
        if name not in _KEPT and _written(value) != _written(getattr(before, name))
    }
    if entry.source.get("format") == FileKind.REPLICA:
        changed |= {"source": after.source, "replica": after.replica}
    fields = dict(
        iter(entry)
    )  # it has a field `keys`, for which `dict` would take it for a mapping
    return parse_model(Entry, {**fields, **changed})


def _written(value: object) -> bytes:
    """Return a field's value as JSON: 1 and true are equal in Python."""
    return canonical_json(value)


def _of_entry(fault: Fault) -> Fault:
    return Fault(fault.pointer.removeprefix(_FIRST), fault.detail)
