"""Parses foreign JSON into a storable document: strictly first, then with reported repairs.

Both ways bound nesting and the number of values, and take time proportional to the text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError, JsonTooLargeError, MalformedJsonError
from lorewell.formats.notes import ImportNotes, cut, place
from lorewell.model.parse import json_error, parse_integer, refuse_constant
from lorewell.model.structure import SLICE_CHARS, measure
from lorewell.model.text import MAX_NESTING

Pairs: TypeAlias = list[tuple[str, Any]]

# Values and names of a document; the densest real file, scaled to 16 MiB, would hold 300,000.
MAX_VALUES: Final = 1_000_000
MAX_ROW: Final = 100_000  # consecutive scalars: the parser builds them without a break

# Parts to keep are matched in runs: long ones, so that a text of a million strings is not a million
# matches; bounded ones, as a single match blocks all other threads.
_SHORT_STRING = r'"(?:[^"\\]++|\\.){0,99}+"'
_NO_COMMENT = re.compile(rf'(?:[^"/]++|{_SHORT_STRING}|/(?![/*])){{1,500}}+', re.DOTALL)
_NO_STRAY_COMMA = re.compile(rf'(?:[^",]++|{_SHORT_STRING}|,(?!\s*+[\]}}])){{1,500}}+', re.DOTALL)
_IN_STRING = re.compile(r'(?:[^"\\]++|\\(?:.|\Z)){1,1000}+', re.DOTALL)
_SHORT_COMMENT = r"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/)){0,99}+\*/"
_BLANKS = re.compile(rf"(?:\s++|{_SHORT_COMMENT}){{0,500}}+", re.DOTALL)
_COLLECTION = re.compile(r"[ \t\n\r]*+[\[{]")
_UNFIT = re.compile("[\x00\ud800-\udfff]")
# Escapes that may become unfit text: U+0000 and halves of surrogate pairs.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_SUSPECT_CHARS = len(r"\u0000")
_SHOWN_CHARS = 40
_CHARS_A_STEP = 100
_DIGITS_A_STEP = 40


class JsonDocument(NamedTuple):
    """A JSON value and its nesting depth."""

    value: object
    nesting: int


class _Repeated(dict[str, Any]):
    """An object with repeated names: it holds the last member of each, `pairs` has all."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        self.pairs = pairs


@dataclass(frozen=True, slots=True)
class _OutOfRange:
    """A number beyond the range of a double."""

    digits: str


def storable(text: str) -> str:
    """Return the text with U+FFFD in place of U+0000 and of lone surrogates."""
    return _UNFIT.sub("\ufffd", text)


def first_character(text: str, steps: Steps) -> str:
    """Return the first character that is neither blank nor in a comment, or an empty text."""
    at = 0
    while at < len(text):
        found = _BLANKS.match(text, at)
        end = found.end() if found else at
        if end == at:
            if not text.startswith("/*", at):
                break
            end = _long_comment_end(text, at)
        steps.spend("repairs", 1 + (end - at) // _CHARS_A_STEP)
        at = end
    return text[at : at + 1]


def _long_comment_end(text: str, at: int) -> int:
    """Return where the /* comment at `at` ends; an unclosed one extends to the end."""
    end = text.find("*/", at + 2)
    return len(text) if end < 0 else end + 2


def read_json(text: str, notes: ImportNotes) -> JsonDocument:
    """Return the JSON document in a text, with repairs where the intent is clear.

    Repaired, each with a warning: raw control characters in strings, trailing commas, comments,
    numbers out of range (they become null), repeated names in an object, U+0000 and lone
    surrogates.

    Raises:
        MalformedJsonError: the JSON is invalid even so, holds NaN, Infinity or an integer of more
            than 4,300 digits, or nests deeper than 100.
        ImportInvalidError: it holds more than `MAX_VALUES` values, or `MAX_ROW` in a row.
        TooExpensiveError: the budget of `notes.steps` is used up.

    Source: docs/rules/formats.md §0.1, §0.5.

    >>> read_json('{"keys": ["a",], /* why */ "order": 1}', ImportNotes()).value
    {'keys': ['a'], 'order': 1}
    """
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        bare = _filtered(text, _NO_COMMENT, _skip_comments, notes.steps)
        cleaned = _filtered(bare, _NO_STRAY_COMMA, _skip_comma, notes.steps)
        document = _parse_loosely(cleaned, notes)
    if bare != text:
        notes.add("json_comments", "comments in the JSON were ignored")
    if cleaned != bare:
        notes.add("json_trailing_commas", "commas before a closing bracket were ignored")
    return document


def _filtered(
    text: str, run: re.Pattern[str], skip: Callable[[str, int], tuple[int, str]], steps: Steps
) -> str:
    """Return a text without some parts outside of its strings.

    Args:
        text: the text.
        run: matches parts to keep, and short strings.
        skip: returns the end of the part to leave out that begins at an offset, and its
            replacement.
        steps: counts the work.
    """
    kept: list[str] = []
    at = 0
    while at < len(text):
        found = run.match(text, at)
        if found is not None:
            end, part = found.end(), found[0]
        elif text[at] == '"':
            end = _string_end(text, at, steps)
            part = text[at:end]
        else:
            end, part = skip(text, at)
        kept.append(part)
        steps.spend("repairs", 1 + (end - at) // _CHARS_A_STEP)
        at = end
    return "".join(kept)


def _string_end(text: str, at: int, steps: Steps) -> int:
    """Return where the string at `at` ends; an unclosed one extends to the end."""
    at += 1
    while found := _IN_STRING.match(text, at):
        steps.spend("repairs", 1 + (found.end() - at) // _CHARS_A_STEP)
        at = found.end()
    return min(at + 1, len(text))


def _skip_comments(text: str, at: int) -> tuple[int, str]:
    """Return where comments end, and blanks that keep tokens apart and line numbers right."""
    found = _BLANKS.match(text, at)
    end = found.end() if found and found.end() > at else _long_comment_end(text, at)
    return end, " " + "\n" * text.count("\n", at, end)


def _skip_comma(_text: str, at: int) -> tuple[int, str]:
    return at + 1, ""


def check_structure(text: str, steps: Steps) -> int:
    """Return the nesting depth of the JSON; 0 if it begins neither as a list nor as an object.

    Raises:
        MalformedJsonError: it nests deeper than 100.
        ImportInvalidError: it holds more than `MAX_VALUES` values and names, or `MAX_ROW` values
            in a row.
        TooExpensiveError: the budget of `steps` is used up.
    """
    if not _COLLECTION.match(text):
        return 0
    paused = partial(steps.spend, "bytes", SLICE_CHARS // _CHARS_A_STEP)
    try:
        found = measure(text, max_values=MAX_VALUES, max_row=MAX_ROW, paused=paused)
    except JsonTooLargeError as error:
        limit = error.details["limit_values"]
        raise ImportInvalidError(str(error), limit_values=limit) from error
    if found.depth > MAX_NESTING:
        message = f"The JSON nests deeper than {MAX_NESTING} levels."
        raise MalformedJsonError(message)
    steps.spend("values", found.values)
    return found.depth


def _parse_loosely(text: str, notes: ImportNotes) -> JsonDocument:
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        document = _parse(text, notes, strict=False)
    notes.add("json_control_characters", "texts contain raw control characters instead of escapes")
    return document


def _parse(text: str, notes: ImportNotes, *, strict: bool = True) -> JsonDocument:
    depth = check_structure(text, notes.steps)
    builder = JsonBuilder(notes.steps)
    try:
        value = json.loads(
            text,
            strict=strict,
            object_pairs_hook=builder.build_object,
            parse_float=builder.build_float,
            parse_int=builder.build_integer,
            parse_constant=refuse_constant,
        )
    except ValueError as error:  # also a constant, or an integer of over 4,300 digits
        raise json_error(error) from error
    if _may_hold_unfit(text, notes.steps):
        builder.is_odd = True
    return JsonDocument(builder.repaired(value, notes), depth)


def _may_hold_unfit(text: str, steps: Steps) -> bool:
    if "\0" in text:
        return True
    if "\\u" not in text:
        return False
    for start in range(0, len(text), SLICE_CHARS):
        steps.spend("bytes", SLICE_CHARS // _CHARS_A_STEP)
        if _SUSPECT.search(text, start, start + SLICE_CHARS + _SUSPECT_CHARS):
            return True
    return False


class JsonBuilder:
    """Builds values while a text is read.

    Attributes:
        is_odd: whether some of them need repairs.
    """

    def __init__(self, steps: Steps) -> None:
        self.is_odd = False
        self._steps = steps

    def build_object(self, pairs: Pairs) -> dict[str, Any]:
        """Return the object with these members; one with repeated names keeps all of them."""
        self._steps.spend("objects")
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.is_odd = True
        return _Repeated(pairs)

    def build_text(self, text: str) -> str:
        """Return the text; note if it can't be stored as it is."""
        self.is_odd = self.is_odd or _UNFIT.search(text) is not None
        return text

    def build_integer(self, digits: str) -> int:
        """Return the number; the cost of very long ones is counted.

        Raises:
            ValueError: it has more than 4,300 digits.
        """
        if len(digits) > _CHARS_A_STEP:
            self._steps.spend("values", len(digits) // _DIGITS_A_STEP)
        return parse_integer(digits)

    def build_float(self, digits: str) -> float | _OutOfRange:
        """Return the number, or a placeholder if it is beyond the range of a double."""
        number = float(digits)
        if math.isfinite(number):
            return number
        self.is_odd = True
        self._steps.spend("values")
        return _OutOfRange(digits)

    def repaired(self, value: object, notes: ImportNotes) -> object:
        """Return a value built here in storable form; every repair is noted."""
        return _Repairer(notes).repair(value) if self.is_odd else value


class _Repairer:
    """Walks over a document and makes it storable. Its depth is bounded, so recursion is."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._steps: list[str | int] = []

    def repair(self, value: object) -> object:
        self._notes.steps.spend("repairs")
        match value:
            case str():
                return self._text(value)
            case list():
                return [self._below(index, item) for index, item in enumerate(value)]
            case _Repeated():
                return self._object(self._distinct(value))
            case dict():
                return self._object(value)
            case _OutOfRange(digits):
                short = cut(digits, _SHOWN_CHARS)
                self._note("number_out_of_range", f"the number {short} is too large; read as null")
                return None
            case _:
                return value

    def _below(self, step: str | int, value: object) -> object:
        self._steps.append(step)
        repaired = self.repair(value)
        self._steps.pop()
        return repaired

    def _object(self, members: dict[str, Any]) -> dict[str, Any]:
        repaired: dict[str, Any] = {}
        for given, value in members.items():
            name = self._text(given)
            if name in repaired:
                self._note("name_repeated", f"the name {cut(name, _SHOWN_CHARS)!r} occurs twice")
            repaired[name] = self._below(name, value)
        return repaired

    def _distinct(self, repeated: _Repeated) -> dict[str, Any]:
        """Return the last member of each name; of entries all of them, renamed."""
        keep_all = self._steps[-1:] == ["entries"]
        what = "all are kept" if keep_all else "the last one is kept"
        counts = Counter(name for name, _ in repeated.pairs)
        members: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for name, value in repeated.pairs:
            self._notes.steps.spend("repairs")
            key = name
            if keep_all and name in numbers:
                key = _numbered(name, numbers, taken=repeated)
            numbers.setdefault(name, 2)
            members[key] = value
        for name, count in counts.items():
            if count > 1:
                short = cut(storable(name), _SHOWN_CHARS)
                self._note("name_repeated", f"the name {short!r} occurs {count} times; {what}")
        return members

    def _text(self, text: str) -> str:
        if _UNFIT.search(text) is None:
            return text
        pieces = []
        count = 0
        for start in range(0, len(text), SLICE_CHARS):
            self._notes.steps.spend("repairs", 1 + min(len(text), SLICE_CHARS) // _CHARS_A_STEP)
            piece, found = _UNFIT.subn("\ufffd", text[start : start + SLICE_CHARS])
            pieces.append(piece)
            count += found
        what = "U+0000 or half a surrogate pair"
        self._note("unfit_text", f"{count} of {what} replaced by U+FFFD")
        return "".join(pieces)

    def _note(self, code: str, message: str) -> None:
        is_full = self._notes.is_full(code)  # a hostile file could need millions of repairs
        self._notes.add(code, "" if is_full else f"{place(*self._steps)}: {message}")


def _numbered(name: str, numbers: dict[str, int], *, taken: Container[str]) -> str:
    """Return the name with its next free number, and remember the number after it."""
    while (numbered := f"{name}-{numbers[name]}") in taken:
        numbers[name] += 1
    numbers[name] += 1
    return numbered
