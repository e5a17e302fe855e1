"""What a key is: literal or regex (spec/native.md §8.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lorewell.jsregex import Pattern
from lorewell.model.text import BLANK
from lorewell.retrieval.normal import normalise

# A slash inside the pattern must be escaped, that is, follow an odd number of backslashes.
_REGEX_KEY = re.compile(r"/((?:\\.|[^\\/])+)/([gimsuy]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LiteralKey:
    """A plain key: `text` is what the author wrote, `pattern` its place in the automaton."""

    text: str
    pattern: int
    whole_words: bool


@dataclass(frozen=True, slots=True)
class RegexKey:
    """A JavaScript regex key: `text` is what the author wrote."""

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
    """Return the key without blanks around it; an empty result means: no key."""
    return key.strip(BLANK)


def fold_key(key: str, *, case_sensitive: bool) -> str:
    """Return the trimmed key as it is compared."""
    composed = normalise("NFC", key)
    return composed if case_sensitive else composed.casefold()
