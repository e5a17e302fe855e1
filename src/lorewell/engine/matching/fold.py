"""Texts brought to one form for comparison, with the way back (spec/native.md §8.4).

Both keys and texts are brought to NFC and, unless case counts, case-folded in full. Where that
changes the number of characters, the way back to the original is kept, one unit a character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

# Where a character may stand that composes with a starter before it: everything else of Unicode
# holds none (a test walks all of it).
_COMPOSING_AREAS = (
    (0xC0, 0x3100),
    (0xF900, 0xFB50),
    (0x10000, 0x17000),
    (0x1D100, 0x1D200),
)
_SHORT_CHARS = 4_000
_HANGUL_VOWELS_AND_FINALS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))


@cache
def composing_characters() -> frozenset[str]:
    """Return the characters that may compose with the one before them."""
    found = {chr(point) for point in _HANGUL_VOWELS_AND_FINALS}
    for first, last in _COMPOSING_AREAS:
        for point in range(first, last):
            parts = unicodedata.decomposition(chr(point)).split()
            if len(parts) == 2 and not parts[0].startswith("<"):  # noqa: PLR2004  a canonical pair
                found.add(chr(int(parts[1], 16)))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in its form for comparison.

    Attributes:
        text: what is searched.
        begins: for each place in `text`, where its character begins in the original; -1 inside of
            one. None when both texts have the same places.
        ends: for each place in `text`, where the character before it ends in the original.
    """

    text: str
    begins: tuple[int, ...] | None = None
    ends: tuple[int, ...] | None = None

    def original_span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the span in the original, or None when it cuts a character of it."""
        if self.begins is None or self.ends is None:
            return start, end
        begin, stop = self.begins[start], self.ends[end]
        return None if begin < 0 or stop < 0 else (begin, stop)


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, composed) of each stretch of the text that normalises on its own."""
    composing = composing_characters()
    start = 0
    for index in range(1, len(text) + 1):
        if index < len(text) and (unicodedata.combining(text[index]) or text[index] in composing):
            continue
        yield start, index, unicodedata.normalize("NFC", text[start:index])
        start = index


def _units(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, character): each character of the NFC form and where it comes from."""
    if unicodedata.is_normalized("NFC", text):
        yield from ((index, index + 1, character) for index, character in enumerate(text))
        return
    for start, end, composed in _pieces(text):
        if composed == text[start:end]:
            yield from ((start + i, start + i + 1, c) for i, c in enumerate(composed))
        else:  # of several characters each stands for the whole stretch: marks may change places
            yield from ((start, end, character) for character in composed)


def fold_case(text: str) -> Folded:
    """Return the text as it is compared where case does not count."""
    if len(text) > _SHORT_CHARS:
        return _fold(text, case_sensitive=False)
    return _fold_short(text)


def keep_case(text: str) -> Folded:
    """Return the text as it is compared where case counts."""
    return _fold(text, case_sensitive=True)


@lru_cache(maxsize=1_000)
def _fold_short(text: str) -> Folded:
    """As `_fold`, remembered: a chat asks for most of its texts turn by turn."""
    return _fold(text, case_sensitive=False)


def _fold(text: str, *, case_sensitive: bool) -> Folded:
    composed = unicodedata.normalize("NFC", text)
    folded = composed if case_sensitive else composed.casefold()
    # Folding never shortens a character, so equal lengths mean one for one.
    if len(folded) == len(text) and (composed is text or composed == text):
        return Folded(folded)
    begins: list[int] = []
    ends = [0]
    for start, end, character in _units(text):
        width = len(character if case_sensitive else character.casefold())
        begins += [start] + [-1] * (width - 1)
        ends += [-1] * (width - 1) + [end]
    return Folded(folded, (*begins, len(text)), tuple(ends))
