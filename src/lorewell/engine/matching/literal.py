"""Finds all literal keys of a book in one automaton pass per text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Final

from ahocorasick_rs import AhoCorasick

from lorewell.engine.steps import Steps

MAX_PLACES: Final = 16  # places of one key in one text; `occurrences` finds the others
# A result is cached if its text and its number of hits are small.
_MAX_CACHED, _SHORT_CHARS, _FEW = 500, 4_000, 100
_SLICE_CHARS: Final = 32_768  # the automaton searches so many in 20 ms, whatever it finds
# At most so many keys of the automaton end at one place. Keys that end in more other keys are rare:
# 36 of the 10,385 keys of 2,756 real books end in two others. They are searched one by one, in
# texts that hold the key that they end in.
_MOST_NESTED: Final = 2
_MOST_KEY_CHARS: Final = 1_000  # of a key of the automaton
# While it is built, the automaton moves the states in which a key ends to the front. That takes
# quadratic time if nearly all states are such, as for `k1`, `k2`, … `k12`. Putting other states
# first avoids that: those of a spacer key that no text holds, as long as a share of the keys.
_SPACER: Final = -1
_MANY_KEYS, _KEYS_PER_SPACE = 1_000, 16
_CHARS_PER_STEP, _HITS_PER_STEP = 100, 4
_MAX_OWED: Final = 1_000  # steps for cached results that are spent together
# The cost of `str.find` in units of a quarter nanosecond. In a short text a key of medium length
# may be compared again at every place.
_UNITS_PER_STEP, _UNITS_PER_CHAR, _MEDIUM_KEY, _SHORT_TEXT = 4_000, 13, 100, 30_000

Hit = tuple[int, int, int]  # pattern, start, end


class LiteralIndex:
    """The distinct folded keys of a book, each with the entries that it wakes.

    Immutable except for its cache. One pass finds all keys, however many there are.
    """

    __slots__ = (
        "_automaton",
        "_cache",
        "_endings",
        "_is_whole",
        "_longest",
        "_stride",
        "_together",
        "entries",
        "longest_with_newline",
        "patterns",
    )

    def __init__(self, patterns: Sequence[str], entries: Sequence[tuple[int, ...]]) -> None:
        """Build the automaton; `entries[i]` are the indexes of the entries that pattern i wakes."""
        self.patterns = tuple(patterns)
        self.entries = tuple(entries)
        # Texts are joined by newlines, so only a key that holds one can span two texts.
        self.longest_with_newline = max((len(p) for p in patterns if "\n" in p), default=0)
        self._together, self._endings = _partition(self.patterns)
        together = [self.patterns[number] for number in self._together]
        self._longest = max(map(len, together), default=1)
        self._is_whole = len(together) == len(self.patterns)
        if len(together) > _MANY_KEYS:
            self._is_whole = False
            self._together.insert(0, _SPACER)
            together.insert(0, "\0" * (len(together) // _KEYS_PER_SPACE))
        self._automaton = AhoCorasick(together, store_patterns=False) if together else None
        self._stride = _SLICE_CHARS - self._longest + 1
        self._cache: dict[str, tuple[Sequence[Hit], int]] = {}

    def extended(self, patterns: Sequence[str], entries: Sequence[tuple[int, ...]]) -> LiteralIndex:
        """Return an index with a few more keys, which shares the automaton.

        The new keys get the next numbers. They are searched one by one.
        """
        if not patterns:
            return self
        more = copy(self)
        more.patterns = (*self.patterns, *patterns)
        more.entries = (*self.entries, *entries)
        more.longest_with_newline = max(
            [self.longest_with_newline, *(len(each) for each in patterns if "\n" in each)]
        )
        added = range(len(self.patterns), len(more.patterns))
        more._endings = {**self._endings, -1: [*self._endings.get(-1, ()), *added]}  # noqa: SLF001
        more._is_whole = False  # noqa: SLF001
        more._cache = {}  # noqa: SLF001
        return more

    def find(self, text: str, steps: Steps, *, after: int = 0) -> Sequence[Hit]:
        """Return the first hits of every key, at most `MAX_PLACES` each, overlapping ones too.

        The hits of one pattern are in order.

        Args:
            text: the text, searched in slices.
            steps: the step budget; the cost is in proportion to the text and to the hits.
            after: hits that end at or before this place do not count.
        """
        if not text or not self.patterns:
            return ()
        if len(text) <= _SLICE_CHARS and self._is_whole and not after:
            hits = self._search(text, steps)
            if len(hits) <= MAX_PLACES:
                return hits
            found = self._first(iter(hits), {})
            steps.spend("matching", len(found))
            return found
        counts: dict[int, int] = {}
        found = self._first(self._in_slices(text, steps, after), counts)
        if self._endings:
            for pattern in self._nested(counts):
                self._find_single(pattern, text, steps, after, counts, found)
        if found:  # handling a hit takes longer than finding it
            steps.spend("matching", len(found))
        return found

    def find_again(self, text: str, steps: Steps) -> Sequence[Hit]:
        """Return `find`, cached for short texts: a chat sends most of its texts again each turn.

        Results only depend on the text and the keys, and a cached one costs the same steps.
        """
        cached = self._cache.get(text)
        if cached is None:
            return self._find_and_cache(text, steps)
        found, cost = cached
        steps.spend("matching", cost)
        return found

    def find_each(self, texts: Iterable[str], steps: Steps) -> Iterator[Sequence[Hit]]:
        """Yield `find_again` of each text; the caller must exhaust the iterator."""
        owed = 0
        for text in texts:
            cached = self._cache.get(text)
            if cached is None:
                yield self._find_and_cache(text, steps)
            else:
                found, cost = cached
                owed += cost
                if owed > _MAX_OWED:
                    steps.spend("matching", owed)
                    owed = 0
                yield found
        steps.spend("matching", owed)

    def _find_and_cache(self, text: str, steps: Steps) -> Sequence[Hit]:
        before = steps.spent
        found = self.find(text, steps)
        if len(text) <= _SHORT_CHARS and len(found) <= _FEW:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[text] = found, steps.spent - before
        return found

    def _search(self, text: str, steps: Steps) -> list[Hit]:
        """Return the hits of the automaton in a text of at most one slice."""
        if self._automaton is None:
            return []
        hits: list[Hit] = self._automaton.find_matches_as_indexes(text, overlapping=True)
        steps.spend("matching", 1 + len(text) // _CHARS_PER_STEP + len(hits) // _HITS_PER_STEP)
        return hits

    def _in_slices(self, text: str, steps: Steps, after: int) -> Iterator[Hit]:
        together, stride = self._together, self._stride
        begin = max(0, after - self._longest)
        while begin < len(text):
            for number, start, end in self._search(text[begin : begin + _SLICE_CHARS], steps):
                pattern = together[number]
                # The next slice has the hits that start later.
                if pattern != _SPACER and start < stride and end + begin > after:
                    yield pattern, start + begin, end + begin
            begin += stride

    def _first(self, hits: Iterator[Hit], counts: dict[int, int]) -> list[Hit]:
        """Return the first hits of each pattern and count them in `counts`."""
        found = []
        for hit in hits:
            count = counts.get(hit[0], 0)
            if count < MAX_PLACES:
                counts[hit[0]] = count + 1
                found.append(hit)
        return found

    def _nested(self, counts: dict[int, int]) -> Iterator[int]:
        """Yield the keys to search one by one: those that end in a key found so far."""
        pending = [*self._endings.get(-1, ())]
        for pattern in counts:
            pending += self._endings.get(pattern, ())
        while pending:
            pattern = pending.pop()
            yield pattern
            if pattern in counts:
                pending += self._endings.get(pattern, ())

    def _find_single(
        self,
        pattern: int,
        text: str,
        steps: Steps,
        after: int,
        counts: dict[int, int],
        found: list[Hit],
    ) -> None:
        steps.spend("matching")
        wanted = self.patterns[pattern]
        begin = max(0, after - len(wanted) + 1)
        for start in occurrences(text, wanted, begin, steps, kind="matching"):
            found.append((pattern, start, start + len(wanted)))
            counts[pattern] = counts.get(pattern, 0) + 1
            if counts[pattern] == MAX_PLACES:
                break


def occurrences(
    text: str, wanted: str, begin: int, steps: Steps, *, kind: str = "keys"
) -> Iterator[int]:
    """Yield the starts of a key in a text, in order, overlapping ones too.

    Args:
        text: the text, searched in slices.
        wanted: the key.
        begin: the place to search from.
        steps: the step budget.
        kind: the kind of work that the steps count as.
    """
    last = len(text) - len(wanted)
    while begin <= last:
        end = min(begin + _SLICE_CHARS + len(wanted), len(text))
        start = text.find(wanted, begin, end)
        looked = (end if start < 0 else start) - begin + len(wanted)
        units = _UNITS_PER_CHAR
        if len(wanted) < _MEDIUM_KEY and end - begin < _SHORT_TEXT:
            units += len(wanted)
        steps.spend(kind, 1 + looked * units // _UNITS_PER_STEP)
        if start < 0:
            begin = end - len(wanted) + 1
        else:
            yield start
            begin = start + 1


def _partition(patterns: Sequence[str]) -> tuple[list[int], dict[int, list[int]]]:
    """Return the keys of the automaton, and by pattern the other keys that end in it.

    If a key ends in several patterns, the longest one counts. Keys that end in none are under -1.
    """
    together: list[int] = []
    endings: dict[int, list[int]] = {}
    # Sorted by reversed text, each key directly follows the chain of keys that it ends in.
    behind: list[tuple[str, int]] = []
    for key, number in sorted((pattern[::-1], number) for number, pattern in enumerate(patterns)):
        while behind and not key.startswith(behind[-1][0]):
            behind.pop()
        if len(behind) < _MOST_NESTED and len(key) <= _MOST_KEY_CHARS:
            together.append(number)
        else:
            endings.setdefault(behind[-1][1] if behind else -1, []).append(number)
        behind.append((key, number))
    together.sort()
    return together, endings
