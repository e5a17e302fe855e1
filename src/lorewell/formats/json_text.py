"""From text to a JSON document that can be stored: strict first, then with open repairs.

Both ways are bounded in depth and in values, and take time in proportion to the text.
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
from lorewell.model.parse import parse_integer, refuse_constant
from lorewell.model.structure import SLICE_CHARS, measure
from lorewell.model.text import MAX_NESTING

Pairs: TypeAlias = list[tuple[str, Any]]

# Of a document, names counted; the densest real one, were it 16 MiB, would hold 300,000.
MAX_VALUES: Final = 1_000_000
MAX_ROW: Final = 100_000  # of them that are neither lists nor objects, as they are built in one go

# What is kept is taken in runs: long ones, so that a text of a million strings is not a million
# matches, and bounded ones, as a single match keeps all other threads waiting.
_SHORT_STRING = r'"(?:[^"\\]++|\\.){0,99}+"'
_NO_COMMENT = re.compile(rf'(?:[^"/]++|{_SHORT_STRING}|/(?![/*])){{1,500}}+', re.DOTALL)
_NO_STRAY_COMMA = re.compile(rf'(?:[^",]++|{_SHORT_STRING}|,(?!\s*+[\]}}])){{1,500}}+', re.DOTALL)
_IN_STRING = re.compile(r'(?:[^"\\]++|\\(?:.|\Z)){1,1000}+', re.DOTALL)
_SHORT_COMMENT = r"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/)){0,99}+\*/"
_BLANKS = re.compile(rf"(?:\s++|{_SHORT_COMMENT}){{0,500}}+", re.DOTALL)
_COLLECTION = re.compile(r"[ \t\n\r]*+[\[{]")
_UNFIT = re.compile("[\x00\ud800-\udfff]")
# Escapes that may become unfit text: of U+0000, and of halves of a pair.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_SUSPECT_CHARS = len(r"\u0000")
_SHOWN_CHARS = 40
_CHARS_A_STEP = 100
_DIGITS_A_STEP = 40


class JsonDocument(NamedTuple):
    """A JSON value, and how deep it nests."""

    value: object
    nesting: int


class _Repeated(dict[str, Any]):
    """An object that names members twice; holds the last of each, `pairs` has all."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        self.pairs = pairs


@dataclass(frozen=True, slots=True)
class _OutOfRange:
    """A number that no double can hold."""

    digits: str


def storable(text: str) -> str:
    """Return the text with U+FFFD in place of U+0000 and of lone surrogates."""
    return _UNFIT.sub("\ufffd", text)


def first_character(text: str, steps: Steps) -> str:
    """Return the first character that is neither blank nor in a comment; empty if there is none."""
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
    """Return where the /* ends that begins there; one that is never closed takes the rest."""
    end = text.find("*/", at + 2)
    return len(text) if end < 0 else end + 2


def read_json(text: str, notes: ImportNotes) -> JsonDocument:
    """Return the JSON document in a text, repaired where a reader can be sure what was meant.

    Repaired, each with a notice: raw control characters in strings, trailing commas, comments,
    numbers out of range (null), names that occur twice in an object, U+0000 and lone surrogates.

    Raises:
        MalformedJsonError: it is no JSON even so, holds NaN, Infinity or an integer of more than
            4,300 digits, or nests deeper than 100.
        ImportInvalidError: it holds more than `MAX_VALUES` values, or `MAX_ROW` in a row.
        TooExpensiveError: `notes.steps` are spent.

    Source: docs/rules/formats.md §0.1, §0.5.

    >>> read_json('{"keys": ["a",], /* why */ "order": 1}', ImportNotes()).value
    {'keys': ['a'], 'order': 1}
    """
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        bare = _kept(text, _NO_COMMENT, _pass_comment, notes.steps)
        cleaned = _kept(bare, _NO_STRAY_COMMA, _pass_comma, notes.steps)
        document = _parse_loosely(cleaned, notes)
    if bare != text:
        notes.add("json_comments", "comments in the JSON were passed over")
    if cleaned != bare:
        notes.add("json_trailing_commas", "commas before a closing bracket were passed over")
    return document


def _kept(
    text: str, run: re.Pattern[str], leave_out: Callable[[str, int], tuple[int, str]], steps: Steps
) -> str:
    """Return a text without some of what stands between its strings.

    Args:
        text: the text.
        run: finds what stays; also strings, unless they are long.
        leave_out: returns where that ends which begins at a place and goes, and what replaces it.
        steps: counts the work.
    """
    kept: list[str] = []
    at = 0
    while at < len(text):
        found = run.match(text, at)
        if found is not None:
            end, stays = found.end(), found[0]
        elif text[at] == '"':
            end = _string_end(text, at, steps)
            stays = text[at:end]
        else:
            end, stays = leave_out(text, at)
        kept.append(stays)
        steps.spend("repairs", 1 + (end - at) // _CHARS_A_STEP)
        at = end
    return "".join(kept)


def _string_end(text: str, at: int, steps: Steps) -> int:
    """Return where the string ends that begins there; one that is never closed takes the rest."""
    at += 1
    while found := _IN_STRING.match(text, at):
        steps.spend("repairs", 1 + (found.end() - at) // _CHARS_A_STEP)
        at = found.end()
    return min(at + 1, len(text))


def _pass_comment(text: str, at: int) -> tuple[int, str]:
    """Return where comments end, and what keeps tokens apart and lines in their places."""
    found = _BLANKS.match(text, at)
    end = found.end() if found and found.end() > at else _long_comment_end(text, at)
    return end, " " + "\n" * text.count("\n", at, end)


def _pass_comma(_text: str, at: int) -> tuple[int, str]:
    return at + 1, ""


def check_structure(text: str, steps: Steps) -> int:
    """Return how deep the JSON nests; 0 for what begins neither as a list nor as an object.

    Raises:
        MalformedJsonError: deeper than 100.
        ImportInvalidError: it holds more than `MAX_VALUES` values and names, or `MAX_ROW` values
            in a row.
        TooExpensiveError: the steps are spent.
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
        message = f"The JSON nests deeper than {MAX_NESTING}."
        raise MalformedJsonError(message)
    steps.spend("values", found.values)
    return found.depth


def _parse_loosely(text: str, notes: ImportNotes) -> JsonDocument:
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        document = _parse(text, notes, strict=False)
    notes.add("json_control_characters", "texts hold raw control characters; JSON wants escapes")
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
    except json.JSONDecodeError as error:
        message = f"The text is no JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        raise MalformedJsonError(message) from error
    except ValueError as error:  # a constant, or an integer of over 4,300 digits
        message = f"The text is no JSON: {error}."
        raise MalformedJsonError(message) from error
    if _may_hold_unfit(text, notes.steps):
        builder.is_odd = True
    return JsonDocument(builder.mended(value, notes), depth)


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
    """Builds values while a text is read; `is_odd` says that some of them need mending."""

    def __init__(self, steps: Steps) -> None:
        self.is_odd = False
        self._steps = steps

    def build_object(self, pairs: Pairs) -> dict[str, Any]:
        """Return the object of these members, with what it takes to tell equal names apart."""
        self._steps.spend("objects")
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.is_odd = True
        return _Repeated(pairs)

    def build_text(self, text: str) -> str:
        """Return the text; whether it can be stored is only noted."""
        self.is_odd = self.is_odd or _UNFIT.search(text) is not None
        return text

    def build_integer(self, digits: str) -> int:
        """Return the number; one of thousands of digits takes its time.

        Raises:
            ValueError: it has more than 4,300 digits.
        """
        if len(digits) > _CHARS_A_STEP:
            self._steps.spend("values", len(digits) // _DIGITS_A_STEP)
        return parse_integer(digits)

    def build_float(self, digits: str) -> float | _OutOfRange:
        """Return the number, or what stands for one that no double can hold."""
        number = float(digits)
        if math.isfinite(number):
            return number
        self.is_odd = True
        self._steps.spend("values")
        return _OutOfRange(digits)

    def mended(self, value: object, notes: ImportNotes) -> object:
        """Return a value built here as one that can be stored; every repair is noted."""
        return _Mender(notes).mend(value) if self.is_odd else value


class _Mender:
    """Goes through a document, knows where it is, and makes storable what is not.

    Recursion is bounded: the depth of the document was.
    """

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._steps: list[str | int] = []

    def mend(self, value: object) -> object:
        self._notes.steps.spend("repairs")
        match value:
            case str():
                return self._mended(value)
            case list():
                return [self._below(index, item) for index, item in enumerate(value)]
            case _Repeated():
                return self._object(self._told_apart(value))
            case dict():
                return self._object(value)
            case _OutOfRange(digits):
                short = cut(digits, _SHOWN_CHARS)
                self._note("number_out_of_range", f"the number {short} is too large; taken as null")
                return None
            case _:
                return value

    def _below(self, step: str | int, value: object) -> object:
        self._steps.append(step)
        mended = self.mend(value)
        self._steps.pop()
        return mended

    def _object(self, members: dict[str, Any]) -> dict[str, Any]:
        mended: dict[str, Any] = {}
        for given, value in members.items():
            name = self._mended(given)
            if name in mended:
                self._note("name_repeated", f"the name {cut(name, _SHOWN_CHARS)!r} occurs twice")
            mended[name] = self._below(name, value)
        return mended

    def _told_apart(self, twice: _Repeated) -> dict[str, Any]:
        """Return the last of members of one name, or all of them, renamed, if they are entries."""
        keep_all = self._steps[-1:] == ["entries"]
        what = "all are kept" if keep_all else "the last one is kept"
        counts = Counter(name for name, _ in twice.pairs)
        members: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for name, value in twice.pairs:
            self._notes.steps.spend("repairs")
            key = name
            if keep_all and name in numbers:
                key = _numbered(name, numbers, taken=twice)
            numbers.setdefault(name, 2)
            members[key] = value
        for name, count in counts.items():
            if count > 1:
                short = cut(storable(name), _SHOWN_CHARS)
                self._note("name_repeated", f"the name {short!r} occurs {count} times; {what}")
        return members

    def _mended(self, text: str) -> str:
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
        is_full = self._notes.is_full(code)  # a hostile file could have millions of places
        self._notes.add(code, "" if is_full else f"{place(*self._steps)}: {message}")


def _numbered(name: str, numbers: dict[str, int], *, taken: Container[str]) -> str:
    """Return the name with its next number that nobody has; the number after it is remembered."""
    while (numbered := f"{name}-{numbers[name]}") in taken:
        numbers[name] += 1
    numbers[name] += 1
    return numbered
