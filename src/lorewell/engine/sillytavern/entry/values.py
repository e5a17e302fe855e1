"""Readers for the values of foreign files. They note every repair and never fail a book."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lorewell.model.sillytavern import MAX_NAME_CHARS, MAX_NAMES, MAX_TURNS
from lorewell.model.text import BLANK

_NUMERAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_FLAGS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
# A whole regex key at the front of a comma list; commas inside it do not end it.
_SEPARATORS = ",，、；\n"  # between the keys of a text; authors write all of them for the comma
_REGEX_ITEM = re.compile(
    rf"(/(?:[^/\\]++|\\.)++/[A-Za-z]*+)[{BLANK}]*+(?:[{_SEPARATORS}]|$)", re.DOTALL
)
_NO_ITEM = re.compile(f"[{BLANK}{_SEPARATORS}]*+")
_SEPARATOR = re.compile(f"[{_SEPARATORS}]")
_ODD_SEPARATOR = re.compile(f"[{_SEPARATORS[1:]}]")
MAX_ITEMS = 10_000  # items read of a list or of a comma list
_SHOWN_CHARS = 40
_WHOLE = 2**53  # floats below this hold whole numbers exactly


class Repair(NamedTuple):
    """An odd value in a foreign entry that was repaired, or that we can't hold.

    Attributes:
        pointer: JSON pointer relative to the entry, in the file's own names.
        code: a stable word.
        message: a sentence for a person.
    """

    pointer: str
    code: str
    message: str


class MisfitError(Exception):
    """A value that its field can't hold; the default is used instead."""


@dataclass(slots=True)
class RepairNotes:
    """Collects the repairs of one entry while it is read; `at` is the current place."""

    at: str = ""
    repairs: list[Repair] = field(default_factory=list)

    def add(self, code: str, message: str, below: str = "") -> None:
        """Note a repair at the current place, or below it."""
        self.repairs.append(Repair(self.at + below, code, message))


Reader = Callable[[object, RepairNotes], object]


def shown(value: object) -> str:
    """Return a value in short form, to quote it in a message."""
    if not isinstance(value, str | bool | int | float | None):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f'"{value}"' if isinstance(value, str) else f"{value}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _figure(value: object, notes: RepairNotes) -> int | float:
    """Return a number from a JSON number or from a text that holds one."""
    if isinstance(value, str):
        text = value.strip(BLANK)
        if not _NUMERAL.fullmatch(text):
            raise MisfitError
        number: int | float = float(text) if "." in text else int(text)
        notes.add("number_from_text", f"The text {shown(value)} is read as a number.")
        return number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MisfitError
    if isinstance(value, float) and not math.isfinite(value):
        raise MisfitError
    return value


def number(low: int, high: int) -> Reader:
    """Return a reader of numbers that clamps them to the limits."""

    def read(value: object, notes: RepairNotes) -> int | float:
        found = _figure(value, notes)
        kept = min(max(found, low), high)
        if kept != found:
            notes.add("clamped", f"{shown(found)} is out of range and becomes {kept}.")
        return kept

    return read


def integer(low: int, high: int) -> Reader:
    """Return a reader of whole numbers that rounds them and clamps them to the limits."""
    clamp = number(low, high)

    def read(value: object, notes: RepairNotes) -> object:
        found = _figure(value, notes)
        whole = round(found)
        if whole != found:
            notes.add("rounded", f"{shown(found)} is rounded to {whole}.")
        return clamp(whole, notes)

    return read


def turns(value: object, notes: RepairNotes) -> object:
    """Return a number of messages, None for 0 (off)."""
    return integer(0, MAX_TURNS)(value, notes) or None


def flag(value: object, notes: RepairNotes) -> bool:
    """Return a boolean, also from texts and numbers that real files use as one."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip(BLANK).lower()
        if word not in _FLAGS:
            raise MisfitError
        from_text = _FLAGS[word]
        notes.add("flag_from_text", f"The text {shown(value)} is read as {shown(from_text)}.")
        return from_text
    from_number = _figure(value, notes) != 0
    notes.add("flag_from_number", f"The number {shown(value)} is read as {shown(from_number)}.")
    return from_number


def negated(value: object, notes: RepairNotes) -> bool:
    """Return the opposite of a boolean: `disable` for `enabled`."""
    return not flag(value, notes)


def level(value: object, notes: RepairNotes) -> object:
    """Return a recursion level: true stays true, false becomes 0."""
    if isinstance(value, bool):
        return value or 0
    if isinstance(value, str) and value.strip(BLANK).lower() in {"true", "false"}:
        return flag(value, notes) or 0
    return integer(0, MAX_TURNS)(value, notes)


def _words(value: object, notes: RepairNotes, below: str = "") -> str:
    if isinstance(value, str):
        return value
    found = _figure(value, notes)
    whole = isinstance(found, float) and found.is_integer() and abs(found) < _WHOLE
    notes.add("text_from_number", f"The number {shown(value)} is read as text.", below)
    return str(int(found) if whole else found)


def text(limit: int | None = None) -> Reader:
    """Return a reader of texts that cuts them to a limit, if one is given."""

    def read(value: object, notes: RepairNotes) -> str:
        found = _words(value, notes)
        if limit is None or len(found) <= limit:
            return found
        notes.add("cut", f"The text of {len(found)} characters is cut to {limit}.")
        return found[:limit]

    return read


def split_keys(listed: str) -> tuple[str, ...]:
    """Split a text at commas, `，`, `、`, `；` and line breaks into trimmed keys.

    Those inside regex keys do not split.

    At most 10,000 keys are read, which is more than an entry may have.

    >>> split_keys("/Test[,;]/, plain")
    ('/Test[,;]/', 'plain')

    Source: docs/rules/formats.md §1.2; a slash that does not open a regex is a plain character.
    """
    keys: list[str] = []
    start = _item_start(listed, 0)
    while start < len(listed) and len(keys) < MAX_ITEMS:
        if found := _REGEX_ITEM.match(listed, start):
            keys.append(found[1])
            end = found.end()
        else:
            found = _SEPARATOR.search(listed, start)
            end = len(listed) if found is None else found.start()
            keys.append(listed[start:end].strip(BLANK))
        start = _item_start(listed, end)
    return tuple(keys)


def _item_start(listed: str, at: int) -> int:
    """Return the start of the next item of a comma list."""
    found = _NO_ITEM.match(listed, at)
    return found.end() if found else at


def keys(value: object, notes: RepairNotes) -> tuple[str, ...]:
    """Return a list of keys, also from a comma list; other values make a repair note."""
    if isinstance(value, str):
        found = split_keys(value)
        notes.add("keys_split", f"The text {shown(value)} is read as {len(found)} keys.")
        return found
    found = _items(value, notes)
    for at, key in enumerate(found):
        if _ODD_SEPARATOR.search(key) and not key.startswith("/"):
            message = f"The key {shown(key)} holds a separator, but is one key of a list."
            notes.add("separator_in_key", message, f"/{at}")
    return found


def _items(value: object, notes: RepairNotes) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise MisfitError
    found = []
    for index, item in enumerate(value[:MAX_ITEMS]):
        at = f"/{index}"
        try:
            found.append(_words(item, notes, at))
        except MisfitError:
            notes.add("wrong_type", f"{shown(item)} is not a text and is left out.", at)
    return tuple(found)


def title(limit: int) -> Reader:
    """Return a reader of titles; a list of texts is joined."""
    read_text = text(limit)

    def read(value: object, notes: RepairNotes) -> object:
        if not isinstance(value, list) or not value:
            return read_text(value, notes)
        joined = ", ".join(_items(value, notes))
        notes.add("text_from_list", f"The list is read as the text {shown(joined)}.")
        return read_text(joined, notes)

    return read


def _bounded(value: object, notes: RepairNotes, most: int, chars: int) -> tuple[str, ...]:
    found = _items(value, notes)
    kept = tuple(item[:chars] for item in found[:most])
    if kept != found:
        notes.add("cut", f"The list is cut to {most} items of {chars} characters.")
    return kept


def texts(most: int, chars: int) -> Reader:
    """Return a reader of lists of texts that cuts them to the limits."""
    return lambda value, notes: _bounded(value, notes, most, chars)


def choice(
    by_number: Sequence[str], words: Mapping[str, str], usual: Container[str] = ()
) -> Reader:
    """Return a reader of one of several words, given as a number or as a text.

    Args:
        by_number: the words by number.
        words: the words by the texts that stand for them, in lower case with underscores.
        usual: texts that the dialect itself writes; they make no repair note.
    """

    def read(value: object, notes: RepairNotes) -> str:
        if isinstance(value, str):
            word = value.strip(BLANK).lower().replace(" ", "_").replace("-", "_")
            if word in words:
                if word not in usual:
                    notes.add("word_from_text", f"{shown(value)} is read as {words[word]}.")
                return words[word]
        found = _figure(value, notes)
        if found not in range(len(by_number)):
            raise MisfitError
        return by_number[int(found)]

    return read


def character_filter(value: object, notes: RepairNotes) -> dict[str, object] | None:
    """Return a character filter in the form of the block, None if it is empty."""
    if not isinstance(value, Mapping):
        raise MisfitError
    found: dict[str, object] = {"is_exclude": False, "names": (), "tags": ()}
    for name, member in (("is_exclude", "isExclude"), ("names", "names"), ("tags", "tags")):
        given = value.get(member)
        if given is None:
            continue
        at, notes.at = notes.at, f"{notes.at}/{member}"
        try:
            found[name] = (
                flag(given, notes)
                if name == "is_exclude"
                else _bounded(given, notes, MAX_NAMES, MAX_NAME_CHARS)
            )
        except MisfitError:
            notes.add("wrong_type", f"Invalid value {shown(given)}; it is left out.")
        notes.at = at
    return found if found["names"] or found["tags"] else None
