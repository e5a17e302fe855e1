"""From UTF-16 code units, in which JavaScript counts, to code points."""

from __future__ import annotations

import re
from bisect import bisect_left

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class Ruler:
    """Measures spans of one text; characters beyond U+FFFF are looked for once."""

    def __init__(self, text: str) -> None:
        """Note the code unit at which each character of two units begins."""
        self._pairs: list[int] = []
        if not text.isascii():
            found = (match.start() for match in _ASTRAL.finditer(text))
            self._pairs = [point + before for before, point in enumerate(found)]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in code points; an end inside a surrogate pair takes in all of it.

        >>> Ruler("a😀b").span(2, 4)
        (1, 3)
        """
        pairs_before_start = bisect_left(self._pairs, start)
        pairs_before_end = bisect_left(self._pairs, end)
        inside = pairs_before_end > 0 and self._pairs[pairs_before_end - 1] == end - 1
        return start - pairs_before_start, end - pairs_before_end + inside
