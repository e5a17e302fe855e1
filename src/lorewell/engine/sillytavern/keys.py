"""What a key is: plain text, a JavaScript regex, or one that always matches.

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

MARKER: Final = "\x01"  # stands before every scanned text
_REGEX = re.compile(r"/(.+)/([gimsuy]*)", re.DOTALL)
_BARE_SLASH = re.compile(r"(?<!\\)/")
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


class PlainKey(NamedTuple):
    """A key that is looked for as text.

    Attributes:
        exact, folded: what is looked for where case counts, and where it does not.
        single: whether it is one word, so that "whole words" means something; a key of several
            matches inside words.
    """

    exact: str
    folded: str
    single: bool


class JsRegexKey(NamedTuple):
    """A regex key; should V8 refuse it, it is looked for as text."""

    pattern: Pattern
    otherwise: PlainKey


Prepared = PlainKey | JsRegexKey
# Says whether a hit stands alone: of the text, where it starts and ends, and what that may cost.
Borders = Callable[[str, int, int, Steps], bool]


@dataclass(frozen=True, slots=True)
class SillyTavernKey:
    """A key of an entry.

    Attributes:
        text: as written.
        plain: what is looked for; None where that depends on macros, or a simple search for it
            in single texts would not do.
    """

    text: str
    plain: PlainKey | None


def as_plain(text: str) -> PlainKey:
    """Return a text as a plain key."""
    return PlainKey(text, text.lower(), SPACES.search(text) is None)


def classify(text: str) -> Prepared:
    r"""Return what a key means whose macros are expanded.

    >>> classify("/lamp\\/oil/i").pattern.flags, classify("/etc/passwd/").exact
    ('i', '/etc/passwd/')
    """
    match = _REGEX.fullmatch(text)
    if match is None or _BARE_SLASH.search(match[1]):
        return as_plain(text)
    return JsRegexKey(Pattern(match[1], match[2]), as_plain(text))


def read_key(text: str) -> SillyTavernKey:
    """Return a key as its entry has it."""
    trimmed = trim(text)
    if not trimmed or MARKER in trimmed or SURROGATE.search(text) or may_hold_macro(text):
        return SillyTavernKey(text, None)
    prepared = classify(trimmed)
    return SillyTavernKey(text, prepared if isinstance(prepared, PlainKey) else None)


def stands_alone(text: str, start: int, end: int, _: Steps) -> bool:
    """Return whether neither side of a hit touches an ASCII word character."""
    before = start > 0 and text[start - 1] in _WORD
    return not before and not (end < len(text) and text[end] in _WORD)


def find_plain(
    text: str, wanted: str, alone: Borders | None, steps: Steps, *, begin: int = 0
) -> int:
    """Return where a text holds a key first, -1 if nowhere.

    Args:
        text: what is searched.
        wanted: the key.
        alone: says whether a hit stands alone, if it must.
        steps: what it may cost.
        begin: the place from which on it counts.
    """
    for start in occurrences(text, wanted, begin, steps):
        if alone is None or alone(text, start, start + len(wanted), steps):
            return start
    return -1
