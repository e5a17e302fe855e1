"""Word borders in every script (spec/native.md §8.4, §8.11)."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import lru_cache

# First and last code points of the scripts that are written without spaces: Han, Hiragana, Katakana
# (with the marks both share, ー among them), Hangul, Thai, Lao, Khmer and Burmese (Myanmar).
# Source: the Script property of Unicode 16, neighbouring ranges joined.
NO_SPACE_SCRIPTS: tuple[tuple[int, int], ...] = (
    (0x0E01, 0x0E3A),
    (0x0E40, 0x0EDF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17F9),
    (0x19E0, 0x19FF),
    (0x2E80, 0x2FD5),
    (0x3005, 0x3007),
    (0x3021, 0x302F),
    (0x3031, 0x3035),
    (0x3038, 0x303B),
    (0x3041, 0x30FF),
    (0x3131, 0x318E),
    (0x31F0, 0x321E),
    (0x3260, 0x327E),
    (0x32D0, 0x32FE),
    (0x3300, 0x3357),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97C),
    (0xA9E0, 0xA9FE),
    (0xAA60, 0xAA7F),
    (0xAC00, 0xD7FB),
    (0xF900, 0xFAD9),
    (0xFF66, 0xFF9F),
    (0xFFA0, 0xFFDC),
    (0x116D0, 0x116E3),
    (0x16FE2, 0x16FF6),
    (0x1AFF0, 0x1B167),
    (0x1F200, 0x1F200),
    (0x20000, 0x33479),
)
_FIRSTS = tuple(first for first, _ in NO_SPACE_SCRIPTS)


def in_no_space_script(character: str) -> bool:
    """Return whether the character's script is written without spaces between words."""
    index = bisect_right(_FIRSTS, ord(character)) - 1
    return index >= 0 and ord(character) <= NO_SPACE_SCRIPTS[index][1]


@lru_cache(maxsize=8192)
def is_word_character(character: str) -> bool:
    """Return whether a character that is no combining mark counts as part of a word."""
    return character == "_" or (character.isalnum() and not in_no_space_script(character))


@lru_cache(maxsize=8192)
def is_mark(character: str) -> bool:
    """Return whether the character is a combining mark, which belongs to the one before it."""
    return unicodedata.category(character)[0] == "M"


def _is_word_at(text: str, index: int) -> bool:
    while index > 0 and is_mark(text[index]):
        index -= 1
    return is_word_character(text[index])


def stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether no word character of text[start:end] touches one outside of it."""
    if start > 0 and _is_word_at(text, start) and _is_word_at(text, start - 1):
        return False
    return not (end < len(text) and _is_word_at(text, end - 1) and _is_word_at(text, end))
