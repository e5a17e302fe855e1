"""All literal keys of a book in one automaton pass per text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ahocorasick_rs import AhoCorasick

from lorewell.engine.steps import Steps

MAX_PLACES: Final = 16  # places of one key in one text; `occurrences` finds the others
_MOST_KNOWN, _SHORT_CHARS, _FEW = 500, 4_000, 100  # texts; characters and hits of one
_SLICE_CHARS: Final = 32_768  # the automaton is done with so many in 20 ms, whatever it finds
# So many keys of the automaton end at one place at most. Others end in them and are rare: of 10,385
# keys of 2,756 real books 36 end in two other keys. They are searched one by one, in texts
# that hold the key that they end in.
_MOST_NESTED: Final = 2
_MOST_KEY_CHARS: Final = 1_000  # of a key of the automaton
# While it is built, the automaton moves states in which a key ends before all others. That takes
# quadratic time where nearly all are such, as for `k1`, `k2`, … `k12`, unless other states come
# first: those of a key that no text holds, as many as a share of the keys.
_SPACER: Final = -1
_MANY_KEYS, _KEYS_PER_SPACE = 1_000, 16
_CHARS_PER_STEP, _HITS_PER_STEP = 100, 4
_MOST_OWED: Final = 1_000  # steps for what is remembered that are counted together
# What `str.find` costs: units of a quarter nanosecond. In a short text a key of medium length may
# be compared again at every place.
_UNITS_PER_STEP, _UNITS_PER_CHAR, _MEDIUM_KEY, _SHORT_TEXT = 4_000, 13, 100, 30_000

Hit = tuple[int, int, int]  # pattern, start, end


class LiteralIndex:
    """The distinct folded keys of a book, and which entries each belongs to.

    Immutable; one pass finds every key, however many there are.
    """

    __slots__ = (
        "_automaton",
        "_endings",
        "_is_whole",
        "_known",
        "_longest",
        "_stride",
        "_together",
        "entries",
        "longest_with_newline",
        "patterns",
    )

    def __init__(self, patterns: Sequence[str], entries: Sequence[tuple[int, ...]]) -> None:
        """Build the automaton; `entries[i]` are the indexes of the entries that use pattern i."""
        self.patterns = tuple(patterns)
        self.entries = tuple(entries)
        # Texts are joined by newlines, so only a key that holds one can lie across two of them.
        self.longest_with_newline = max((len(p) for p in patterns if "\n" in p), default=0)
        self._together, self._endings = _part(self.patterns)
        together = [self.patterns[number] for number in self._together]
        self._longest = max(map(len, together), default=1)
        self._is_whole = len(together) == len(self.patterns)
        if len(together) > _MANY_KEYS:
            self._is_whole = False
            self._together.insert(0, _SPACER)
            together.insert(0, "\0" * (len(together) // _KEYS_PER_SPACE))
        self._automaton = AhoCorasick(together, store_patterns=False) if together else None
        self._stride = _SLICE_CHARS - self._longest + 1
        self._known: dict[str, tuple[Sequence[Hit], int]] = {}

    def find(self, text: str, steps: Steps, *, after: int = 0) -> Sequence[Hit]:
        """Return the first places of every key, overlapping ones too, at most `MAX_PLACES` of each.

        Those of one pattern are in order.

        Args:
            text: what is searched, in slices.
            steps: what it may cost, in proportion to the text and to what is found in it.
            after: places that end at or before this one do not count.
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
        told: dict[int, int] = {}
        found = self._first(self._in_slices(text, steps, after), told)
        if self._endings:
            for pattern in self._reached(told):
                self._find_alone(pattern, text, steps, after, told, found)
        if found:  # looking at a place takes longer than finding it
            steps.spend("matching", len(found))
        return found

    def find_again(self, text: str, steps: Steps) -> Sequence[Hit]:
        """As `find`, and remember a short text: a chat asks for most of its texts turn by turn.

        What is remembered follows from the text and the keys alone, and is not cheaper in steps.
        """
        known = self._known.get(text)
        if known is None:
            return self._find_and_keep(text, steps)
        found, cost = known
        steps.spend("matching", cost)
        return found

    def find_each(self, texts: Iterable[str], steps: Steps) -> Iterator[Sequence[Hit]]:
        """Yield what `find_again` gives for each text; all of it must be taken."""
        owed = 0
        for text in texts:
            known = self._known.get(text)
            if known is None:
                yield self._find_and_keep(text, steps)
            else:
                found, cost = known
                owed += cost
                if owed > _MOST_OWED:
                    steps.spend("matching", owed)
                    owed = 0
                yield found
        steps.spend("matching", owed)

    def _find_and_keep(self, text: str, steps: Steps) -> Sequence[Hit]:
        before = steps.spent
        found = self.find(text, steps)
        if len(text) <= _SHORT_CHARS and len(found) <= _FEW:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = found, steps.spent - before
        return found

    def _search(self, text: str, steps: Steps) -> list[Hit]:
        """Return what the automaton finds in a text that is no longer than a slice."""
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
                # What begins later, the next slice has.
                if pattern != _SPACER and start < stride and end + begin > after:
                    yield pattern, start + begin, end + begin
            begin += stride

    def _first(self, hits: Iterator[Hit], told: dict[int, int]) -> list[Hit]:
        """Return the first hits of each pattern; `told` counts them."""
        found = []
        for hit in hits:
            count = told.get(hit[0], 0)
            if count < MAX_PLACES:
                told[hit[0]] = count + 1
                found.append(hit)
        return found

    def _reached(self, told: dict[int, int]) -> Iterator[int]:
        """Yield the keys to be searched alone: those that end in what was found, also meanwhile."""
        waiting = [*self._endings.get(-1, ())]
        for pattern in told:
            waiting += self._endings.get(pattern, ())
        while waiting:
            pattern = waiting.pop()
            yield pattern
            if pattern in told:
                waiting += self._endings.get(pattern, ())

    def _find_alone(
        self,
        pattern: int,
        text: str,
        steps: Steps,
        after: int,
        told: dict[int, int],
        found: list[Hit],
    ) -> None:
        steps.spend("matching")
        wanted = self.patterns[pattern]
        begin = max(0, after - len(wanted) + 1)
        for start in occurrences(text, wanted, begin, steps, kind="matching"):
            found.append((pattern, start, start + len(wanted)))
            told[pattern] = told.get(pattern, 0) + 1
            if told[pattern] == MAX_PLACES:
                break


def occurrences(
    text: str, wanted: str, begin: int, steps: Steps, *, kind: str = "keys"
) -> Iterator[int]:
    """Yield where a text holds a key at or after a place, overlapping places too, in order.

    Args:
        text: what is searched, in slices.
        wanted: the key.
        begin: the place.
        steps: what it may cost.
        kind: as what it is counted.
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


def _part(patterns: Sequence[str]) -> tuple[list[int], dict[int, list[int]]]:
    """Return the keys of the automaton, and by pattern the other keys that end in it.

    Of several patterns that a key ends in the longest counts. Those that end in none are under -1.
    """
    together: list[int] = []
    endings: dict[int, list[int]] = {}
    # Backwards in order, a key stands behind all that it ends in, and these one behind the other.
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
