"""Converts entries to and from SillyTavern_replica's internal form.

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
    """Return an entry in the internal form; its uid is its id, which is unique in the book."""
    return {**replica_entry(entry), "uid": entry.id}


def read_worldbook(document: object, notes: ImportNotes, new_id: Callable[[], str]) -> Lorebook:
    """Return the book in a document, with its form detected by shape, as SillyTavern_replica does.

    A map of entries is SillyTavern's form, unless they have triggers; a list is the internal form,
    also if no entry has triggers. Any other document is read like any file.

    Args:
        document: JSON; it is not changed.
        notes: collects warnings and losses.
        new_id: returns a new uid for an entry of a list without one; in a map the key is the uid.

    Raises:
        ImportInvalidError: the kind is unknown, or the document is damaged.
    """
    if not isinstance(document, dict):
        return read_lorebook(document, notes)
    entries = document.get("entries")
    if not isinstance(entries, dict | list) or len(entries) > MAX_ENTRIES:
        return read_lorebook(document, notes)
    if isinstance(entries, dict):
        with_uids = {key: _with_uid(raw, partial(str, key)) for key, raw in entries.items()}
        return read_lorebook({**document, "entries": with_uids}, notes)
    if find_kind(document) in _LISTS and not _are_card_entries(entries):
        return replica.read(
            {**document, "entries": [_with_uid(raw, new_id) for raw in entries]}, notes
        )
    return read_lorebook(document, notes)


def _with_uid(raw: object, make_uid: Callable[[], str]) -> object:
    if not isinstance(raw, dict) or as_uid(raw.get("uid")) is not None:
        return raw
    return {**raw, "uid": make_uid()}


def _are_card_entries(entries: Sequence[object]) -> bool:
    """Return whether a list is that of a card's book, which has another name for keys."""
    first = next((raw for raw in entries if isinstance(raw, dict)), {})
    return "keys" in first


def parse_book(document: Mapping[str, Any], new_id: Callable[[], str]) -> BookCreate:
    """Return the book in a document in one of SillyTavern_replica's forms; see `read_worldbook`.

    Raises:
        ValidationFailedError: an entry breaks a limit of the contract; the faults are pointers.
    """
    notes = ImportNotes()
    lorebook = read_worldbook(document, notes, new_id)
    return build_book(lorebook, file_name="", depth=MAX_NESTING, notes=notes)


def parse_entry(raw: Mapping[str, Any]) -> Entry:
    """Return an entry in the internal form, with a uid, as a native entry.

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
    """Return an entry with some members of its internal form changed.

    Fields that these members don't change stay, also those that the internal form can't express.

    Raises:
        ValidationFailedError: it breaks a limit of the contract; the faults are pointers into it.
    """
    shown = show_entry(entry)
    before, after = parse_entry(shown), parse_entry({**shown, **given, "uid": entry.id})
    changed = {
        name: value
        for name, value in after
        if name not in _KEPT and canonical_json(value) != canonical_json(getattr(before, name))
    }  # compared as JSON: 1 and true are equal in Python
    if entry.source.get("format") == FileKind.REPLICA:
        changed |= {"source": after.source, "replica": after.replica}
    fields = dict(
        iter(entry)
    )  # it has a field `keys`, for which `dict` would take it for a mapping
    return parse_model(Entry, {**fields, **changed})


def _of_entry(fault: Fault) -> Fault:
    return Fault(fault.pointer.removeprefix(_FIRST), fault.detail)
