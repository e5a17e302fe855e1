"""Folds texts for comparison and maps places back to the original (docs/rules/native.md §8.4).

Keys and texts are normalised to NFC and, unless case counts, fully case-folded. Where that changes
the number of characters, a unit for each such character maps it back to the original.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from lorewell.engine.steps import Steps
from lorewell.retrieval.normal import character_class, normalise

# The areas of Unicode that hold characters that compose with the one before, are reordered, fold to
# several characters or change in NFC. A test checks that all other areas hold none.
_SPECIAL_AREAS: Final = (
    (0xC0, 0x3100),
    (0xA600, 0xAC00),
    (0xF900, 0xFB50),
    (0xFE00, 0x10000),
    (0x10000, 0x1F000),
    (0x2F800, 0x2FA20),
)
_SHORT_CHARS = 4_000
_PIECE_CHARS = 16_384  # a longer text is folded in pieces, so that each call is short
_CHARS_PER_STEP = 100
_SHORT_STRETCH = 16
_HANGUL_VOWELS_AND_FINALS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))

Form = Callable[[str, Steps], "Folded"]


def _special_characters() -> Iterator[str]:
    for first, last in _SPECIAL_AREAS:
        yield from map(chr, range(first, last))


@cache
def composing_characters() -> frozenset[str]:
    """Return the characters that can compose with the one before them."""
    found = {chr(point) for point in _HANGUL_VOWELS_AND_FINALS}
    for character in _special_characters():
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):  # noqa: PLR2004  a canonical pair
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


@cache
def joining_characters() -> frozenset[str]:
    """Return the characters that attach to the one before them: marks and composing ones."""
    marks = (
        each
        for each in _special_characters()
        if unicodedata.combining(unicodedata.normalize("NFD", each)[0])
    )
    return composing_characters().union(marks)


@cache
def growing_characters() -> frozenset[str]:
    """Return the characters that fold to several characters."""
    return frozenset(each for each in _special_characters() if len(each.casefold()) > 1)


@cache
def changing_characters() -> frozenset[str]:
    """Return the characters that NFC changes."""
    return frozenset(
        each for each in _special_characters() if unicodedata.normalize("NFC", each) != each
    )


@cache
def _irregular(*, composed: bool, case_sensitive: bool) -> re.Pattern[str]:
    """Return a pattern for the stretches whose number of characters folding may change.

    Args:
        composed: whether the text is in NFC already, so that only case folding changes it.
        case_sensitive: whether the text is normalised but not case-folded.
    """
    growing = frozenset[str]() if case_sensitive else growing_characters()
    if composed:
        return re.compile(f"[{character_class(growing)}]")
    alone = character_class(growing | changing_characters())
    return re.compile(f".[{character_class(joining_characters())}]+|[{alone}]", re.DOTALL)


@cache
def _cuttable() -> re.Pattern[str]:
    """Return a pattern for places to cut a text: NFC joins and reorders nothing across them."""
    return re.compile(f"[^{character_class(joining_characters())}]")


@dataclass(frozen=True, slots=True)
class Units:
    """Stretches of a folded text that map to stretches of the original, each as a whole.

    Attributes:
        starts, stops: start and end of each in the folded text, in order.
        begins, ends: start and end of each in the original.
    """

    starts: array[int] = field(default_factory=lambda: array("I"))
    stops: array[int] = field(default_factory=lambda: array("I"))
    begins: array[int] = field(default_factory=lambda: array("I"))
    ends: array[int] = field(default_factory=lambda: array("I"))

    def add(self, start: int, stop: int, begin: int, end: int) -> None:
        """Add a unit at the end."""
        self.starts.append(start)
        self.stops.append(stop)
        self.begins.append(begin)
        self.ends.append(end)

    def extend(self, other: Units, start: int, begin: int) -> None:
        """Add the units of a text that starts at `start`, its original at `begin`."""
        self.starts.extend(place + start for place in other.starts)
        self.stops.extend(place + start for place in other.stops)
        self.begins.extend(place + begin for place in other.begins)
        self.ends.extend(place + begin for place in other.ends)


@dataclass(frozen=True, slots=True)
class Folded:
    """A text folded for comparison.

    Attributes:
        text: the folded text.
        units: where characters do not map one to one to the original; between units, places only
            differ by an offset. None if there are no such places.
    """

    text: str
    units: Units | None = None

    def original_span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the span in the original, None if it cuts a character there."""
        if self.units is None:
            return start, end
        begin, stop = _begin(self.units, start), _end(self.units, end)
        return None if begin is None or stop is None else (begin, stop)

    @property
    def length(self) -> int:
        """The length of the original."""
        if self.units is None:
            return len(self.text)
        return self.units.ends[-1] + len(self.text) - self.units.stops[-1]


def _begin(units: Units, start: int) -> int | None:
    at = bisect_right(units.starts, start) - 1
    if at < 0:
        return start
    if start == units.starts[at]:
        return units.begins[at]
    past = start - units.stops[at]
    return None if past < 0 else units.ends[at] + past


def _end(units: Units, end: int) -> int | None:
    at = bisect_left(units.starts, end) - 1
    if at < 0:
        return end
    past = end - units.stops[at]
    return None if past < 0 else units.ends[at] + past


def steps_to_fold(texts: Sequence[str]) -> int:
    """Return the steps for folding texts, without those for units."""
    return len(texts) + sum(map(len, texts)) // _CHARS_PER_STEP


def fold_case(text: str, steps: Steps) -> Folded:
    """Fold a text for comparison without case.

    Here and below, the caller spends the steps for the length of the text; see `steps_to_fold`.
    """
    if len(text) > _SHORT_CHARS:
        folded = _fold(text, steps, case_sensitive=False)
    else:
        folded = _fold_short(text)
    if folded.units is not None:
        steps.spend("matching", len(folded.units.starts))
    return folded


def keep_case(text: str, steps: Steps) -> Folded:
    """Fold a text for comparison with case."""
    folded = _fold(text, steps, case_sensitive=True)
    if folded.units is not None:
        steps.spend("matching", len(folded.units.starts))
    return folded


def keep_text(text: str, _: Steps) -> Folded:
    """Return the text unchanged, for regexes."""
    return Folded(text)


@lru_cache(maxsize=1_000)
def _fold_short(text: str) -> Folded:
    """Return `_fold_piece`, cached: a chat sends most of its texts again each turn."""
    return _fold_piece(text, case_sensitive=False)


def _fold(text: str, steps: Steps, *, case_sensitive: bool) -> Folded:
    if len(text) <= _PIECE_CHARS or text.isascii():
        return _fold_piece(text, case_sensitive=case_sensitive)
    pieces: list[str] = []
    units = Units()
    begin = start = 0
    while begin < len(text):
        found = _cuttable().search(text, begin + _PIECE_CHARS)
        end = len(text) if found is None else found.start()
        piece = _fold_piece(text[begin:end], case_sensitive=case_sensitive)
        pieces.append(piece.text)
        if piece.units is not None:
            units.extend(piece.units, start, begin)
        start += len(piece.text)
        begin = end
        steps.watch()
    return Folded("".join(pieces), units if units.starts else None)


def _fold_piece(text: str, *, case_sensitive: bool) -> Folded:
    composed = normalise("NFC", text)
    folded = composed if case_sensitive else composed.casefold()
    is_composed = composed is text or composed == text
    # Folding never shortens a character, so equal lengths mean that all map one to one.
    if len(folded) == len(text) and is_composed:
        return Folded(folded)
    units = Units()
    shift = 0  # offset of a place in the folded text to its original
    irregular = _irregular(composed=is_composed, case_sensitive=case_sensitive)
    for found in irregular.finditer(text):
        begin, end = found.span()
        is_short = end - begin <= _SHORT_STRETCH
        is_same, widths = (_short_widths if is_short else _widths)(found[0], case_sensitive)
        start = begin + shift
        if is_same:
            for index, width in enumerate(widths, begin):
                if width > 1:
                    units.add(start, start + width, index, index + 1)
                start += width
        else:  # NFC may reorder marks, so each character maps to the whole stretch
            for width in widths:
                units.add(start, start + width, begin, end)
                start += width
        shift = start - end
    return Folded(folded, units if units.starts else None)


def _widths(stretch: str, case_sensitive: bool) -> tuple[bool, tuple[int, ...]]:  # noqa: FBT001  cached below, by place
    """Return whether a stretch is in NFC, and the folded length of each character of its NFC."""
    part = normalise("NFC", stretch)
    widths = (1 if case_sensitive else len(character.casefold()) for character in part)
    return part == stretch, tuple(widths)


_short_widths = lru_cache(maxsize=10_000)(_widths)
