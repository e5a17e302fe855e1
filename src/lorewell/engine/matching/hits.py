"""Finds the literal keys of one book in a growing text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from lorewell.engine.matching.keys import LiteralKey
from lorewell.engine.matching.literal import MAX_PLACES, LiteralIndex
from lorewell.engine.matching.window import Haystack, HitPlace
from lorewell.engine.steps import Steps

_FEW = 4  # places of a key; checking so few is included in other costs
_NOT_CACHED = HitPlace(supplied=False, number=-1, span=(0, 0))


class Hits:
    """The occurrences of a book's literal keys of one form (with or without case) in a haystack.

    Attributes:
        present: the patterns found, each with the first `MAX_PLACES` starts, ascending.
    """

    def __init__(self, index: LiteralIndex, haystack: Haystack, steps: Steps) -> None:
        """Bind an index to a haystack; nothing is searched yet."""
        self._index = index
        self._steps = steps
        self.haystack = haystack
        self._searched = 0  # characters of the joined text
        self._segments = 0  # number of texts searched
        self.present: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._cache: dict[tuple[int, bool, int], HitPlace | None] = {}

    @property
    def has_keys(self) -> bool:
        """Whether there is anything to search for."""
        return bool(self._index.patterns)

    def advance(self) -> set[int]:
        """Search the texts added since the last call; return the entries with a key in them."""
        fresh: set[int] = set()
        if self._index.longest_with_newline:
            self._add(self._find_across(), fresh)
        else:
            begins, texts = self.haystack.segments(self._segments)
            each = self._index.find_each(texts, self._steps)
            for begin, found in zip(begins, each, strict=True):
                if found:
                    self._add(((p, begin + start, begin + end) for p, start, end in found), fresh)
            self._segments += len(texts)
        self._cache.clear()
        return {entry for pattern in fresh for entry in self._index.entries[pattern]}

    def _find_across(self) -> Iterator[tuple[int, int, int]]:
        """Yield new hits in the joined text: a key with a line break may span several texts."""
        text = self.haystack.text
        begin = max(0, self._searched - self._index.longest_with_newline)
        after = self._searched - begin
        for pattern, start, end in self._index.find(text[begin:], self._steps, after=after):
            yield pattern, start + begin, end + begin
        self._searched = len(text)

    def _add(self, found: Iterable[tuple[int, int, int]], fresh: set[int]) -> None:
        for pattern, start, end in found:
            starts = self.present.setdefault(pattern, [])
            if len(starts) < MAX_PLACES:
                starts.append(start)
            self._lengths[pattern] = end - start
            fresh.add(pattern)

    def first(self, key: LiteralKey, begin: int) -> HitPlace | None:
        """Return the first valid occurrence of a key at or after `begin`."""
        starts = self.present.get(key.pattern)
        if starts is None:
            return None
        # Cached, because many entries may share a key that occurs a million times.
        query = (key.pattern, key.whole_words, begin)
        place = self._cache.get(query, _NOT_CACHED)
        if place is _NOT_CACHED:
            place = self._cache[query] = self._find_first(key, begin, starts)
        return place

    def _find_first(self, key: LiteralKey, begin: int, starts: list[int]) -> HitPlace | None:
        length = self._lengths[key.pattern]
        if len(starts) > _FEW:
            self._steps.spend("keys", len(starts))
        for start in self._starts(key.pattern, begin, starts):
            place = self.haystack.place(start, start + length, alone=key.whole_words)
            if place is not None:
                return place
        return None

    def _starts(self, pattern: int, begin: int, starts: list[int]) -> Iterator[int]:
        """Yield the starts of a pattern at or after `begin`: the known ones, then the others."""
        for at in range(bisect_left(starts, begin), len(starts)):
            yield starts[at]
        if len(starts) == MAX_PLACES:
            wanted = self._index.patterns[pattern]
            yield from self.haystack.occurrences(wanted, max(begin, starts[-1] + 1), self._steps)
