"""Unicode normal forms in time proportional to the text.

`unicodedata` sorts the combining marks of one character by insertion: a run of 16,000 marks takes
a third of a second, one of 200,000 a minute. So long runs are sorted beforehand.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final, Literal

Form = Literal["NFC", "NFKC"]

_LONG_RUN: Final = 32  # marks; real texts have fewer on one character
_DECOMPOSED: Final[dict[Form, Literal["NFD", "NFKD"]]] = {"NFC": "NFD", "NFKC": "NFKD"}
# Ranges that contain marks: the rest of Unicode has none (a test checks all of it).
_MARK_AREAS: Final = ((0x300, 0x3100), (0xA600, 0xAC00), (0xFB00, 0x10000), (0x10000, 0x1F000))


def normalise(form: Form, text: str) -> str:
    """Return the text in a normal form.

    >>> normalise("NFC", "e\u0301") == "\u00e9"
    True
    """
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    decomposed = _DECOMPOSED[form]
    text = _long_runs().sub(lambda run: _in_order(decomposed, run[0]), text)
    return unicodedata.normalize(form, text)


def _in_order(decomposed: Literal["NFD", "NFKD"], run: str) -> str:
    """Return marks in canonical order, decomposed one by one."""
    parts = "".join(unicodedata.normalize(decomposed, mark) for mark in run)
    ordered: list[str] = []
    begin = 0
    for index, mark in enumerate(parts):
        if not unicodedata.combining(mark):
            ordered += sorted(parts[begin:index], key=unicodedata.combining)
            ordered.append(mark)
            begin = index + 1
    ordered += sorted(parts[begin:], key=unicodedata.combining)
    return "".join(ordered)


@cache
def _long_runs() -> re.Pattern[str]:
    return re.compile(f"[{character_class(marks())}]{{{_LONG_RUN},}}")


@cache
def marks() -> frozenset[str]:
    """Return the characters that are combining marks, or decompose into them."""
    return frozenset(
        character
        for first, last in _MARK_AREAS
        for character in map(chr, range(first, last))
        if is_mark(character)
    )


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark, or decomposes into such marks."""
    if unicodedata.combining(character):
        return True
    parts = unicodedata.decomposition(character).split()
    first = next((part for part in parts if not part.startswith("<")), None)
    return first is not None and unicodedata.combining(chr(int(first, 16))) > 0


def character_class(characters: frozenset[str]) -> str:
    """Return the inside of a regex set of characters beyond ASCII."""
    ranges: list[list[int]] = []
    for point in sorted(map(ord, characters)):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
