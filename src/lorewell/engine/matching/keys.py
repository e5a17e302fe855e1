"""The kinds of keys: literal and regex (docs/rules/native.md §8.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lorewell.engine.steps import Steps
from lorewell.jsregex import Look, Pattern
from lorewell.model.text import BLANK
from lorewell.retrieval.normal import normalise

# A slash inside the pattern must be escaped: it follows an odd number of backslashes.
_REGEX_KEY = re.compile(r"/((?:\\.|[^\\/])+)/([gimsuy]*)", re.DOTALL)

# The cost of a regex: a fixed number of steps, and one more for so many characters. V8 takes about
# a nanosecond for each character; `RegexGuard` stops regexes that take longer.
_STEPS_PER_PATTERN: Final = 10
_CHARS_PER_STEP: Final = 4_000


@dataclass(frozen=True, slots=True)
class LiteralKey:
    """A plain key: `text` as the author wrote it, `pattern` its number in the automaton."""

    text: str
    pattern: int
    whole_words: bool


@dataclass(frozen=True, slots=True)
class RegexKey:
    """A JavaScript regex key: `text` as the author wrote it."""

    text: str
    pattern: Pattern


Key = LiteralKey | RegexKey


def split_regex(key: str) -> tuple[str, str] | None:
    """Return (pattern, flags) of a regex key, None for a plain one.

    >>> split_regex("/lamps?/i"), split_regex("/etc/passwd")
    (('lamps?', 'i'), None)
    """
    match = _REGEX_KEY.fullmatch(key)
    return (match[1], match[2]) if match else None


def trim(key: str) -> str:
    """Return the key without blanks around it; an empty result means that there is no key."""
    return key.strip(BLANK)


def fold_key(key: str, *, case_sensitive: bool) -> str:
    """Return a trimmed key in its form for comparison."""
    composed = normalise("NFC", key)
    return composed if case_sensitive else composed.casefold()


def count_regexes(looks: Iterable[Look], steps: Steps) -> None:
    """Spend the steps for regexes about to be searched, each in all parts of its look.

    Raises:
        TooExpensiveError: the search needs more than `steps`.
    """
    for look in looks:
        patterns = len(look.primary) + len(look.secondary)
        chars = sum(end - start for start, end in look.parts)
        steps.spend("regex", patterns * (_STEPS_PER_PATTERN + chars // _CHARS_PER_STEP))
