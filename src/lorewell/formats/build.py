"""Builds a BookCreate from a foreign book: ids, names, limits; everything else is kept as raw.

Source: docs/rules/native.md §11.2, §11.4.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from lorewell.engine.sillytavern.entry import ImportedEntry, form_of, import_entry
from lorewell.engine.sillytavern.entry.own import OWN, given_id
from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ImportInvalidError, ValidationFailedError
from lorewell.formats.detect import FileKind, type_name
from lorewell.formats.lorebook import NO_BOOK, Lorebook
from lorewell.formats.losses import holds_nothing
from lorewell.formats.notes import ImportNotes, place
from lorewell.formats.own_members import take_metadata, without_unmet
from lorewell.formats.quarantine import find_suspects
from lorewell.formats.triggers import note_untriggered
from lorewell.model import BookCreate
from lorewell.model.book import MAX_ENTRIES
from lorewell.model.entry import Entry
from lorewell.model.imports import LossReason
from lorewell.model.parse import parse_model
from lorewell.model.structure import SLICE_CHARS, measure
from lorewell.model.text import MAX_NESTING, Spend, is_blank, pointer, short_pointer

MAX_NAME_CHARS = 300
MAX_DESCRIPTION_CHARS = 10_000
MAX_ID_CHARS = 150
_MADE_ID = re.compile(r"entry-[0-9]+(?:-[0-9]+)?")
_ID_NAMES = ("uid", "id")
_OWN_REQUIREMENTS = f"/{OWN}/runtime_requirements"
MAX_KEY_CHARS = 1_000  # of an entry's key in a world's map
_ADDED_NESTING = 3  # how much deeper an entry's `raw` lies than the entry in its file, at most
UNTITLED = "Untitled"
_SUFFIX_CHARS = len("-5000")
_STEPS_AN_ENTRY = 100
_CHARS_A_STEP = 100
# Members of a book that are read, or by which programs mark their files; the rest has no effect.
_READ = frozenset(["name", "description", "lorebookVersion", "kind", "type", "ver"])
# The loss that a repair causes; other repairs lose nothing.
_LOSS_OF: Mapping[str, LossReason] = {
    **dict.fromkeys(("clamped", "rounded"), "clamped"),
    **dict.fromkeys(("cut", "keys_cut"), "cut"),
    **dict.fromkeys(("wrong_type", "trigger_broken"), "wrong_type"),
    **dict.fromkeys(
        (
            *("ignored_field", "group_weight_ignored", "several_groups", "group_too_long"),
            *("not_kept", "and_key", "pattern_as_text", "decorator_kept", "parent_missing"),
            *("condition_unreadable", "position_changed"),
        ),
        "unsupported",
    ),
}

# Names in files of a native field, for the pointers of faults.
_FILE_NAMES: Mapping[str, tuple[str, ...]] = {
    "content": ("content", "entry", "text", "value"),
    "keys": ("keys", "key", "keywords"),
    "secondary_keys": ("secondary_keys", "keysecondary", "secondkey"),
}


class _Source(NamedTuple):
    """An entry of the file: the steps to it, and its raw object."""

    steps: tuple[str | int, ...]
    raw: Mapping[str, Any]


def build_book(lorebook: Lorebook, *, file_name: str, depth: int, notes: ImportNotes) -> BookCreate:
    """Return the native book; a card without a book gives no entries and the warning `no_book`.

    Args:
        lorebook: the foreign book.
        file_name: name of the file; the last fallback for the book's name.
        depth: nesting depth of the file's JSON.
        notes: collects warnings and losses, in the order of the file.

    Raises:
        ImportInvalidError: `entries` is neither an object nor a list.
        ValidationFailedError: the book has too many entries or keys, or texts or keys that are too
            long; the faults are pointers into the file.
    """
    book = lorebook.book
    if book is None:
        notes.add(NO_BOOK, "the card has no lorebook")
        book = {lorebook.entries_name: []}
    namer = _Namer(book, lorebook, notes)
    name = namer.name((lorebook.card_name, _stem(file_name)))
    description = namer.description()
    sources = list(_entries(book, lorebook, notes))
    spend = partial(notes.steps.spend, "values")
    entries: Sequence[Entry] = _checked(_mapped(sources, lorebook, notes), sources, spend)
    entries = without_unmet(entries, notes)
    note_untriggered(entries, notes)
    document = {
        "name": name,
        "description": description,
        "entries": entries,
        "metadata": _metadata(namer, has_entries=bool(sources)),
    }
    try:
        built = parse_model(BookCreate, document, spend=spend)
    except ValidationFailedError as error:
        at = short_pointer(*lorebook.at)
        raise error.moved(lambda fault: Fault(at, fault.detail)) from error
    if depth > MAX_NESTING - _ADDED_NESTING and _nesting(built, notes.steps) > MAX_NESTING:
        message = f"Kept in a book, the JSON nests deeper than {MAX_NESTING} levels."
        raise ValidationFailedError(message)
    return built


def _nesting(book: BookCreate, steps: Steps) -> int:
    """Return the nesting depth of a book's JSON."""
    text = book.model_dump_json()
    paused = partial(steps.spend, "bytes", SLICE_CHARS // _CHARS_A_STEP)
    return measure(text, max_values=sys.maxsize, paused=paused).depth


def _metadata(namer: _Namer, *, has_entries: bool) -> dict[str, Any]:
    """Return the author's metadata, and what an export needs.

    A book without entries needs no given name.
    """
    metadata = dict(namer.metadata)
    if namer.rest:
        metadata["raw"] = dict(namer.rest)
    if namer.given_name is not None and has_entries:
        metadata["given_name"] = namer.given_name
    return metadata


class _Namer:
    """Finds the book's name and description.

    Attributes:
        metadata: the author's own, which an export wrote under `extensions.lorewell`.
        rest: the members to keep as raw.
        given_name: the name that the book got, as it had none of its own.
    """

    given_name: str | None = None

    def __init__(self, book: Mapping[str, Any], lorebook: Lorebook, notes: ImportNotes) -> None:
        self._book = book
        self._at = lorebook.at
        self._notes = notes
        name_of_entries = lorebook.entries_name
        rest = {name: value for name, value in book.items() if name != name_of_entries}
        self.metadata, self.rest = take_metadata(rest, notes)
        for name, value in self.rest.items():
            notes.steps.spend("members")
            if name not in _READ and not holds_nothing(value):
                notes.lose(value, "unsupported", short_pointer(*self._at, name))

    def name(self, others: tuple[object, ...]) -> str:
        """Return the first valid name, of the book's own and the others, cut to its bound."""
        self._note_type("name")
        own = self._book.get("name")
        if _is_name(own):
            return self._bounded("name", own, MAX_NAME_CHARS)
        other = next((name for name in others if _is_name(name)), UNTITLED)
        self.given_name = self._bounded("name", str(other), MAX_NAME_CHARS)
        return self.given_name

    def description(self) -> str:
        self._note_type("description")
        description = self._book.get("description")
        if not isinstance(description, str):
            return ""
        return self._bounded("description", description, MAX_DESCRIPTION_CHARS)

    def _note_type(self, field: str) -> None:
        value = self._book.get(field)
        if value is not None and not isinstance(value, str):
            self._notes.add(
                "wrong_type", f"the book's {field} must be a text, is {type_name(value)}; kept raw"
            )
            self._notes.lose(value, "wrong_type", pointer(*self._at, field))

    def _bounded(self, field: str, text: str, limit: int) -> str:
        if len(text) > limit:
            self._notes.add(
                f"{field}_cut", f"the {field} has {len(text)} characters; cut to {limit}"
            )
            if self._book.get(field) == text:  # the card's name is not a part of its lorebook
                self._notes.lose(text, "cut", pointer(*self._at, field))
            self.rest.setdefault(field, text)  # an odd name of the book wins over the card's
            return text[:limit]
        if text and self.rest.get(field) == text:  # an empty text stays, to be exported again
            del self.rest[field]
        return text


def _is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and not is_blank(name[:MAX_NAME_CHARS])


def _stem(file_name: str) -> str:
    r"""Return a file's name without folders and without its ending.

    >>> _stem("C:\\lore\\harbour.v2.json")
    'harbour.v2'
    """
    last = file_name.replace("\\", "/").rpartition("/")[2]
    return last.rpartition(".")[0] or last


def _entries(book: Mapping[str, Any], lorebook: Lorebook, notes: ImportNotes) -> Iterator[_Source]:
    """Yield the entries in the order of the file; values that are not entries are noted."""
    entries = book.get(lorebook.entries_name)
    at = lorebook.entries_at
    if entries is None:
        notes.add("entries_missing", f"{place(*at)}: there are no entries")
        return
    if not isinstance(entries, dict | list):
        fault = Fault(short_pointer(*at), f"must be an object or a list, is {type_name(entries)}")
        raise ImportInvalidError.at(fault)
    if len(entries) > MAX_ENTRIES:
        detail = f"must hold at most {MAX_ENTRIES}, holds {len(entries)}"
        fault = Fault(pointer(*at), detail)
        raise ValidationFailedError.at(fault)
    if isinstance(entries, dict) and lorebook.form == "card":
        message = f"{place(*at)}: must be a list, is an object; its members are read"
        notes.add("entries_map", message)
    for key, raw in entries.items() if isinstance(entries, dict) else enumerate(entries):
        steps = (*at, key)
        if isinstance(raw, dict) and (raw or lorebook.keeps_empty):
            yield _Source(steps, raw)
        else:
            what = "an empty object" if raw == {} else type_name(raw)
            notes.add("entry_skipped", f"{place(*steps)}: must be an entry, is {what}; left out")
            notes.lose(raw, "no_entry", short_pointer(*steps))


def _mapped(sources: list[_Source], lorebook: Lorebook, notes: ImportNotes) -> list[dict[str, Any]]:
    entries = []
    identifier = _Identifier(sources, lorebook, notes)
    for index, source in enumerate(sources):
        notes.steps.spend("entries", _STEPS_AN_ENTRY)
        entry_id = identifier.id_of(index)
        imported = _read_entry(source.raw, lorebook, entry_id, notes.steps)
        _report(source, imported, notes)
        if _is_odd_key(source, lorebook):  # an export uses the key again
            imported.entry["source"]["key"] = source.steps[-1]
        entries.append(imported.entry)
    return entries


def _checked(
    entries: Iterable[Mapping[str, Any]], sources: Iterable[_Source], spend: Spend
) -> list[Entry]:
    """Return the entries as models, one by one, so that the work budget can stop them.

    Raises:
        ValidationFailedError: some break a limit; the faults are pointers into the file.
    """
    found: list[Entry] = []
    faults: list[Fault] = []
    more = 0
    for entry, source in zip(entries, sources, strict=True):
        try:
            found.append(parse_model(Entry, entry, spend=spend))
        except ValidationFailedError as error:
            listed = [_in_file(fault, source) for fault in error.faults if fault.pointer]
            more += error.fault_count - len(listed)
            faults += listed
    if faults:
        raise ValidationFailedError.at(*faults, more=more)
    return found


def _report(source: _Source, imported: ImportedEntry, notes: ImportNotes) -> None:
    """Note an entry's repairs, losses, blocking requirements and suspicious texts."""
    entry_id = imported.entry["id"]
    pointer_to = _EntryPointer(source.steps)
    lost: dict[tuple[str, LossReason], None] = {}
    for repair in imported.repairs:
        message = f"{place(*source.steps)}{repair.pointer}: {repair.message}"
        notes.add(repair.code, message, entry_id)
        why = _LOSS_OF.get(repair.code)
        if why is not None:
            lost[repair.pointer, why] = None
    lost |= {(below, "unsupported"): None for below in imported.unread.pointers}
    first = {sign.requirement: sign.pointer for sign in reversed(imported.signs)}
    for word in imported.entry["runtime_requirements"]:
        lost[first.get(word, _OWN_REQUIREMENTS), "blocked"] = None
    found: dict[tuple[str, LossReason], object] = {}
    for below, why in lost:
        value, found_at = _value_at(source.raw, below)
        found[found_at, why] = value
    for (found_at, why), value in found.items():
        notes.lose(value, why, pointer_to(found_at))
    notes.lose_more(imported.unread.more, "unsupported")
    for suspect in find_suspects(imported, notes.steps):
        notes.quarantine(suspect, entry_id=entry_id, at=pointer_to(suspect.pointer))


class _EntryPointer:
    """Makes pointers into an entry; if they would be very long, the pointer of its container."""

    def __init__(self, steps: tuple[str | int, ...]) -> None:
        self._at = short_pointer(*steps)
        self._is_whole = self._at == pointer(*steps)

    def __call__(self, below: str) -> str:
        return self._at + below if self._is_whole else self._at


def _value_at(raw: Mapping[str, Any], at: str) -> tuple[object, str]:
    """Return the value at a JSON pointer with the pointer, or its nearest container.

    A repair may be about a missing member, such as the conditions of a trigger without any.
    """
    found: Any = raw
    found_at = ""
    for step in at.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            break
        found_at += f"/{step}"
    return found, found_at


def _is_odd_key(source: _Source, lorebook: Lorebook) -> bool:
    """Return whether an entry's key in a world's map differs from its id."""
    key = str(source.steps[-1])
    if lorebook.is_named:
        odd = key != _as_id(source.raw.get("uid"))
    else:
        odd = lorebook.source_format == FileKind.ST_WORLD and key != own_id(source.raw)
    return odd and len(key) <= MAX_KEY_CHARS


def _read_entry(
    raw: Mapping[str, Any], lorebook: Lorebook, entry_id: str, steps: Steps
) -> ImportedEntry:
    if lorebook.read_entry is not None:
        return lorebook.read_entry(raw, entry_id, steps)
    return import_entry(
        raw,
        form=form_of(raw, lorebook.form),
        entry_id=entry_id,
        source_format=lorebook.source_format,
        steps=steps,
    )


def _name_of(steps: tuple[str | int, ...], lorebook: Lorebook) -> str | None:
    name = steps[-1]
    return name if lorebook.is_named and isinstance(name, str) and name else None


class _Identifier:
    """Gives every entry a unique id: that of the file, if it has one that is not taken."""

    def __init__(self, sources: list[_Source], lorebook: Lorebook, notes: ImportNotes) -> None:
        self._sources = sources
        self._notes = notes
        self._own = [imported_id(raw) or _name_of(steps, lorebook) for steps, raw in sources]
        self._wanted = {storable_id(own) for own in self._own if own is not None}
        self._given: set[str] = set()
        self._numbers: dict[str, int] = {}

    def id_of(self, index: int) -> str:
        own = self._own[index]
        wanted = f"entry-{index}" if own is None else storable_id(own)
        where = place(*self._sources[index].steps)
        if own is not None and wanted != own:
            message = f"{where}: the id is too long or contains control characters; repaired"
            self._notes.add("id_mended", message, wanted)
            self._lose(index, "odd_id")
        taken = wanted in self._given or (own is None and wanted in self._wanted)
        entry_id = self._numbered(wanted) if taken else wanted
        if taken:
            message = f"{where}: the id {wanted!r} is taken; it becomes {entry_id!r}"
            self._notes.add("id_repeated", message, entry_id)
            if own is not None:
                self._lose(index, "duplicate_id")
        self._given.add(entry_id)
        return entry_id

    def _lose(self, index: int, why: LossReason) -> None:
        steps, raw = self._sources[index]
        name = next((name for name in _ID_NAMES if _as_id(raw.get(name)) is not None), None)
        if name is None:  # the id is the entry's key in its map
            self._notes.lose(raw, why, short_pointer(*steps))
        else:
            self._notes.lose(raw[name], why, short_pointer(*steps, name))

    def _numbered(self, wanted: str) -> str:
        stem = wanted[: MAX_ID_CHARS - _SUFFIX_CHARS]  # long ids that begin alike share numbers
        number = self._numbers.get(stem, 2)
        while (entry_id := suffixed_id(wanted, number)) in self._given or entry_id in self._wanted:
            number += 1
        self._numbers[stem] = number + 1
        return entry_id


def own_id(raw: Mapping[str, Any]) -> str | None:
    """Return the entry's `uid` or `id` as text; None if it has neither."""
    found = (_as_id(raw.get(name)) for name in _ID_NAMES)
    return next((own for own in found if own is not None), None)


def imported_id(raw: Mapping[str, Any]) -> str | None:
    """Return the id that an import gives the entry: the one of an export, else its own."""
    return given_id(raw) or own_id(raw)


def _as_id(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def storable_id(entry_id: str) -> str:
    """Return the id with control characters replaced, cut to its bound."""
    return "".join(
        "\ufffd" if unicodedata.category(character) == "Cc" else character
        for character in entry_id[:MAX_ID_CHARS]
    )


def suffixed_id(wanted: str, number: int) -> str:
    """Return the id with a number as suffix, within its bound."""
    suffix = f"-{number}"
    return wanted[: MAX_ID_CHARS - len(suffix)] + suffix


def is_imported_id(entry_id: str, own: str | None) -> bool:
    """Return whether an import may give `entry_id` to an entry whose own id is `own`."""
    if own is None:
        return _MADE_ID.fullmatch(entry_id) is not None
    wanted = storable_id(own)
    _, _, number = entry_id.rpartition("-")
    is_number = number.isascii() and number.isdigit()
    return entry_id == wanted or (is_number and entry_id == suffixed_id(wanted, int(number)))


def _in_file(fault: Fault, source: _Source) -> Fault:
    """Return the fault of a native entry with a pointer into the file, as precise as possible."""
    field, *steps = fault.pointer.split("/")[1:] or [""]
    names = _FILE_NAMES.get(field, (field,))
    name = next((name for name in names if name and name in source.raw), None)
    if name is None:
        return Fault(short_pointer(*source.steps), fault.detail)
    below = steps if isinstance(source.raw[name], list) else ()
    return Fault(short_pointer(*source.steps, name, *below), fault.detail)
