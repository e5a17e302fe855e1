"""Splits texts into words for ranking (docs/rules/native.md §9.1, §8.11)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator
from itertools import pairwise

from lorewell.retrieval.normal import normalise
from lorewell.retrieval.scripts import EAST_ASIAN

_ALPHANUMERIC = re.compile(r"[^\W_]+")
_IDEOGRAPHIC = re.compile(f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in EAST_ASIAN)}]")


def tokens(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions.

    Compatibility forms and case are normalised. A run of Han, Kana or Hangul gives every single
    character and every adjacent pair; a run of other letters and digits is one word.

    >>> tokens("The 灯塔大门!")
    ['the', '灯', '塔', '大', '门', '灯塔', '塔大', '大门']
    """
    level = normalise("NFKC", text).casefold()
    found: list[str] = []
    for run in _runs(level):
        if run.isascii():
            found.append(run)
        else:
            for ideographic, units in _parts(run):
                found += _grams(units) if ideographic else ["".join(units)]
    return found


def first_match(text: str, words: Container[str]) -> int | None:
    """Return where the first of these words begins in the text; None if the text has none.

    The place is exact if normalising compatibility forms and case keeps the length of the text,
    and approximate otherwise.
    """
    level = normalise("NFKC", text).casefold()
    at = 0
    for run in _runs(level):
        at = level.index(run, at)
        if run.isascii():
            if run in words:
                return min(at, len(text))
        else:
            start = at
            for ideographic, units in _parts(run):
                found = _place_in(units, words, ideographic=ideographic)
                if found is not None:
                    return min(start + found, len(text))
                start += sum(map(len, units))
        at += len(run)
    return None


def _place_in(units: list[str], words: Container[str], *, ideographic: bool) -> int | None:
    if not ideographic:
        return 0 if "".join(units) in words else None
    for number, unit in enumerate(units):
        if unit in words or "".join(units[number : number + 2]) in words:
            return sum(map(len, units[:number]))
    return None


def _runs(text: str) -> Iterator[str]:
    """Yield runs of letters and digits, with their combining marks."""
    if text.isascii():
        yield from _ALPHANUMERIC.findall(text)
        return
    start = end = -1
    for match in _ALPHANUMERIC.finditer(text):
        if end >= 0:
            # Usually a blank follows: not a mark, so the run ends.
            if not _is_mark(text[end]):
                yield text[start:end]
            elif _only_marks(text, end, match.start()):
                end = match.end()
                continue
            else:
                yield text[start : _after_marks(text, end)]
        start, end = match.span()
    if end >= 0:
        yield text[start : _after_marks(text, end)]


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character)[0] == "M"


def _only_marks(text: str, start: int, end: int) -> bool:
    return all(_is_mark(character) for character in text[start:end])


def _after_marks(text: str, end: int) -> int:
    while end < len(text) and _is_mark(text[end]):
        end += 1
    return end


def _parts(run: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield the parts of one kind of a run: whether ideographic, and characters with their marks.

    The run must not be empty.
    """
    kind = False
    units: list[str] = []
    begins = [at for at, character in enumerate(run) if at == 0 or not _is_mark(character)]
    for begin, end in pairwise([*begins, len(run)]):
        ideographic = _IDEOGRAPHIC.match(run, begin) is not None
        if units and ideographic != kind:
            yield kind, units
            units = []
        kind = ideographic
        units.append(run[begin:end])
    yield kind, units


def _grams(units: list[str]) -> list[str]:
    return units + [first + second for first, second in pairwise(units)]
