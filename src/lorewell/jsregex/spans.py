"""Converts between code points and UTF-16 code units, in which JavaScript counts."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

_BLOCK_CHARS: Final = 256


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Ruler:
    """Converts offsets of one text.

    It stores the number of code units before each block of 256 characters and counts within the
    block: a list of all characters of two units would take 40 bytes each.

    Attributes:
        text: the text.
        starts: number of code units before each block and before the end; empty for ASCII.
    """

    def __init__(self, text: str, known: Ruler | None = None) -> None:
        """Count the code units of each block; ASCII needs no counting.

        Args:
            text: the text.
            known: the ruler of a text that may be a beginning of this one; its counts are reused.
        """
        self.text = text
        self.starts: list[int] = []
        if not text.isascii():
            starts = [0]
            if known is not None and known.starts and text.startswith(known.text):
                starts = known.starts[: len(known.text) // _BLOCK_CHARS + 1]
            blocks = range((len(starts) - 1) * _BLOCK_CHARS, len(text), _BLOCK_CHARS)
            sizes = (_units(text[at : at + _BLOCK_CHARS]) for at in blocks)
            self.starts = [*starts[:-1], *accumulate(sizes, initial=starts[-1])]

    def unit(self, point: int) -> int:
        """Return the number of code units before a code point."""
        if not self.starts:
            return point
        block, rest = divmod(point, _BLOCK_CHARS)
        begin = point - rest
        return self.starts[block] + _units(self.text[begin:point])

    def point(self, unit: int, *, up: bool) -> int:
        """Return the code point that begins at a code unit.

        A unit inside a surrogate pair gives the next code point if `up`, else the pair itself.

        >>> Ruler("a😀b").point(2, up=False), Ruler("a😀b").point(2, up=True)
        (1, 2)
        """
        if not self.starts:
            return unit
        block = bisect_right(self.starts, unit, hi=len(self.starts) - 1) - 1
        point, at = block * _BLOCK_CHARS, self.starts[block]
        while at < unit:
            at += 1 + (self.text[point] > "\uffff")
            point += 1
        return point - (at > unit and not up)
