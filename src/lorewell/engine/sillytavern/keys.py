"""The kinds of keys: plain text, JavaScript regex, or a key that always matches.

Source: docs/rules/sillytavern.md §7.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lorewell.engine.matching.literal import occurrences
from lorewell.engine.sillytavern.javascript import SPACES, SURROGATE, trim
from lorewell.engine.sillytavern.macros import may_hold_macro
from lorewell.engine.steps import Steps
from lorewell.jsregex import Pattern

MARKER: Final = "\x01"  # precedes every scanned text
_REGEX = re.compile(r"/(.+)/([gimsuy]*)", re.DOTALL)
_BARE_SLASH = re.compile(r"(?<!\\)/")
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


class PlainKey(NamedTuple):
    """A key that is searched as text.

    Attributes:
        exact, folded: the text to search for with and without case.
        single: whether it is a single word. "Whole words" applies to single words only; a key of
            several words also matches inside words.
    """

    exact: str
    folded: str
    single: bool


class JsRegexKey(NamedTuple):
    """A regex key; if V8 refuses it, it is searched as text."""

    pattern: Pattern
    otherwise: PlainKey


Prepared = PlainKey | JsRegexKey
# Returns whether a hit stands alone, given the text, its start, its end and the step budget.
Borders = Callable[[str, int, int, Steps], bool]


@dataclass(frozen=True, slots=True)
class SillyTavernKey:
    """A key of an entry.

    Attributes:
        text: as written.
        plain: the text to search for; None if it depends on macros, or if searching the single
            texts is not enough.
    """

    text: str
    plain: PlainKey | None


def as_plain(text: str) -> PlainKey:
    """Return a text as a plain key."""
    return PlainKey(text, text.lower(), SPACES.search(text) is None)


def classify(text: str) -> Prepared:
    r"""Classify a key whose macros are expanded.

    >>> classify("/lamp\\/oil/i").pattern.flags, classify("/etc/passwd/").exact
    ('i', '/etc/passwd/')
    """
    match = _REGEX.fullmatch(text)
    if match is None or _BARE_SLASH.search(match[1]):
        return as_plain(text)
    return JsRegexKey(Pattern(match[1], match[2]), as_plain(text))


def read_key(text: str) -> SillyTavernKey:
    """Parse a key of an entry."""
    trimmed = trim(text)
    if not trimmed or MARKER in trimmed or SURROGATE.search(text) or may_hold_macro(text):
        return SillyTavernKey(text, None)
    prepared = classify(trimmed)
    return SillyTavernKey(text, prepared if isinstance(prepared, PlainKey) else None)


def stands_alone(text: str, start: int, end: int, _: Steps) -> bool:
    """Return whether a hit has no ASCII word character next to it."""
    before = start > 0 and text[start - 1] in _WORD
    return not before and not (end < len(text) and text[end] in _WORD)


def find_plain(
    text: str, wanted: str, borders: Borders | None, steps: Steps, *, begin: int = 0
) -> int:
    """Return the first place of a key in a text, -1 if there is none.

    Args:
        text: the text to search.
        wanted: the key.
        borders: checks whether a hit stands alone; None if it need not.
        steps: the step budget.
        begin: the place to search from.
    """
    for start in occurrences(text, wanted, begin, steps):
        if borders is None or borders(text, start, start + len(wanted), steps):
            return start
    return -1
