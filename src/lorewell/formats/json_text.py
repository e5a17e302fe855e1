"""From text to a JSON document that can be stored: strict first, then with open repairs.

Both ways are bounded in depth and take time in proportion to the text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from lorewell.errors import MalformedJsonError
from lorewell.formats.notes import Notes, cut, place
from lorewell.model.parse import STRING, nesting, parse_integer, refuse_constant
from lorewell.model.text import MAX_NESTING

Pairs: TypeAlias = list[tuple[str, Any]]

_COMMENT_TEXT = r"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"
_LEADING = re.compile(rf"(?:\s++|{_COMMENT_TEXT})*+", re.DOTALL)
# What is kept is taken in long runs, so that a text of a million strings is not a million matches.
_COMMENT = re.compile(rf"((?:[^\"/]++|{STRING}|/(?![/*]))++)|{_COMMENT_TEXT}", re.DOTALL)
_STRAY_COMMA = r",(?=\s*+[\]}])"
_TRAILING_COMMA = re.compile(
    rf"((?:[^\",]++|{STRING}|(?!{_STRAY_COMMA}),)++)|{_STRAY_COMMA}", re.DOTALL
)
_UNFIT = re.compile("[\x00\ud800-\udfff]")
# What may become unfit text: U+0000 itself, and the escapes of it and of halves of a pair.
_SUSPECT = re.compile(r"\x00|\\u(?:0000|[dD][89a-fA-F])")
_SHOWN_CHARS = 40


class Document(NamedTuple):
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


def first_character(text: str) -> str:
    """Return the first character that is neither blank nor in a comment; empty if there is none."""
    start = _LEADING.match(text)
    end = start.end() if start else 0
    return text[end : end + 1]


def read_json(text: str, notes: Notes) -> Document:
    """Return the JSON document in a text, repaired where a reader can be sure what was meant.

    Repaired, each with a notice: raw control characters in strings, trailing commas, comments,
    numbers out of range (null), names that occur twice in an object, U+0000 and lone surrogates.

    Raises:
        MalformedJsonError: it is no JSON even so, holds NaN, Infinity or an integer of more than
            4,300 digits, or nests deeper than 100.

    Source: spec/formats.md §0.1, §0.5.

    >>> read_json('{"keys": ["a",], /* why */ "order": 1}', Notes()).value
    {'keys': ['a'], 'order': 1}
    """
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        bare = _COMMENT.sub(_without_comment, text)
        cleaned = _TRAILING_COMMA.sub(r"\1", bare)
        document = _parse_loosely(cleaned, notes)
    if bare != text:
        notes.add("json_comments", "comments in the JSON were passed over")
    if cleaned != bare:
        notes.add("json_trailing_commas", "commas before a closing bracket were passed over")
    return document


def _without_comment(found: re.Match[str]) -> str:
    """Return what is no comment as it is; of a comment, what keeps tokens apart and lines."""
    return found[1] or " " + "\n" * found[0].count("\n")


def _parse_loosely(text: str, notes: Notes) -> Document:
    try:
        return _parse(text, notes)
    except MalformedJsonError:
        document = _parse(text, notes, strict=False)
    notes.add("json_control_characters", "texts hold raw control characters; JSON wants escapes")
    return document


def _parse(text: str, notes: Notes, *, strict: bool = True) -> Document:
    depth = nesting(text)
    if depth > MAX_NESTING:
        message = f"The JSON nests deeper than {MAX_NESTING}."
        raise MalformedJsonError(message)
    builder = Builder()
    try:
        value = json.loads(
            text,
            strict=strict,
            object_pairs_hook=builder.build_object,
            parse_float=builder.build_float,
            parse_int=parse_integer,
            parse_constant=refuse_constant,
        )
    except json.JSONDecodeError as error:
        message = f"The text is no JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        raise MalformedJsonError(message) from error
    except ValueError as error:  # a constant, or an integer of over 4,300 digits
        message = f"The text is no JSON: {error}."
        raise MalformedJsonError(message) from error
    if _SUSPECT.search(text):
        builder.is_odd = True
    return Document(builder.mended(value, notes), depth)


class Builder:
    """Builds values while a text is read; `is_odd` says that some of them need mending."""

    def __init__(self) -> None:
        self.is_odd = False

    def build_object(self, pairs: Pairs) -> dict[str, Any]:
        """Return the object of these members, with what it takes to tell equal names apart."""
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.is_odd = True
        return _Repeated(pairs)

    def build_text(self, text: str) -> str:
        """Return the text; whether it can be stored is only noted."""
        self.is_odd = self.is_odd or _UNFIT.search(text) is not None
        return text

    def build_float(self, digits: str) -> float | _OutOfRange:
        """Return the number, or what stands for one that no double can hold."""
        number = float(digits)
        if math.isfinite(number):
            return number
        self.is_odd = True
        return _OutOfRange(digits)

    def mended(self, value: object, notes: Notes) -> object:
        """Return a value built here as one that can be stored; every repair is noted."""
        return _Mender(notes).mend(value) if self.is_odd else value


class _Mender:
    """Goes through a document, knows where it is, and makes storable what is not.

    Recursion is bounded: the depth of the document was.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._steps: list[str | int] = []

    def mend(self, value: object) -> object:
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
        mended, count = _UNFIT.subn("\ufffd", text)
        if count:
            what = "U+0000 or half a surrogate pair"
            self._note("unfit_text", f"{count} of {what} replaced by U+FFFD")
        return mended

    def _note(self, code: str, message: str) -> None:
        self._notes.add(code, f"{place(*self._steps)}: {message}")


def _numbered(name: str, numbers: dict[str, int], *, taken: Container[str]) -> str:
    """Return the name with its next number that nobody has; the number after it is remembered."""
    while (numbered := f"{name}-{numbers[name]}") in taken:
        numbers[name] += 1
    numbers[name] += 1
    return numbered
