"""Word borders in all scripts (docs/rules/native.md §8.4, §8.11)."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import lru_cache

from lorewell.engine.steps import Steps
from lorewell.retrieval.scripts import EAST_ASIAN, SOUTH_EAST_ASIAN

NO_SPACE_SCRIPTS = tuple(sorted(EAST_ASIAN + SOUTH_EAST_ASIAN))
_FIRSTS = tuple(first for first, _ in NO_SPACE_SCRIPTS)
_MARKS_PER_STEP = 8


def in_no_space_script(character: str) -> bool:
    """Return whether the character's script is written without spaces between words."""
    index = bisect_right(_FIRSTS, ord(character)) - 1
    return index >= 0 and ord(character) <= NO_SPACE_SCRIPTS[index][1]


def is_word_character(character: str) -> bool:
    """Return whether a character other than a combining mark is part of a word."""
    return character == "_" or (character.isalnum() and not in_no_space_script(character))


@lru_cache(maxsize=8192)
def _word_or_mark(character: str) -> bool | None:
    """Return whether the character is part of a word; None for a mark, which follows its base."""
    if unicodedata.category(character)[0] == "M":
        return None
    return is_word_character(character)


def _is_word_at(text: str, index: int, steps: Steps) -> bool:
    marks = 0
    while index > 0 and _word_or_mark(text[index]) is None:
        index -= 1
        marks += 1
        if marks % _MARKS_PER_STEP == 0:
            steps.spend("keys")
    return bool(_word_or_mark(text[index]))


def stands_alone(text: str, start: int, end: int, steps: Steps) -> bool:
    """Return whether no word character of text[start:end] touches one outside of it."""
    # The character outside is checked first: it is mostly a space, which decides.
    if (
        start > 0
        and _word_or_mark(text[start - 1]) is not False
        and _is_word_at(text, start - 1, steps)
        and _is_word_at(text, start, steps)
    ):
        return False
    return (
        end >= len(text)
        or _word_or_mark(text[end]) is False
        or not (_is_word_at(text, end, steps) and _is_word_at(text, end - 1, steps))
    )
