"""The text that is searched: the last messages, then what recursion adds (§8.3, §8.5)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lorewell.engine.matching.fold import Folded, Form
from lorewell.engine.matching.literal import occurrences
from lorewell.engine.steps import Steps


class Place(NamedTuple):
    """Where a hit lies: `span` of message `number` or, if `supplied`, of supply text `number`."""

    supplied: bool
    number: int
    span: tuple[int, int]


class Haystack:
    """Messages and supply texts, joined by newlines, in one form for comparison.

    Every entry sees a suffix of it: what begins at `start_of(depth)`. So one text serves all
    depths. It only ever grows at its end.
    """

    def __init__(self, messages: Sequence[str], *, depth: int, form: Form, steps: Steps) -> None:
        """Hold the last `depth` messages; their numbers are those in `messages`.

        `form` brings each text to the form in which it is searched.
        """
        self._form = form
        self._steps = steps
        self._first = max(0, len(messages) - depth)
        self._messages = len(messages) - self._first
        self._segments: list[Folded] = []
        self._starts: list[int] = []
        self._joined = ""
        self._joined_segments = 0
        self.length = 0
        self.extend(messages[self._first :])

    @property
    def text(self) -> str:
        """The texts, joined. Made when it is asked for: most keys are found in single texts."""
        fresh = self._segments[self._joined_segments :]
        if fresh:
            parts = [self._joined] if self._joined_segments else []
            self._joined = "\n".join([*parts, *(folded.text for folded in fresh)])
            self._joined_segments = len(self._segments)
        return self._joined

    def extend(self, texts: Sequence[str]) -> None:
        """Add texts at the end."""
        for text in texts:
            folded = self._form(text, self._steps)
            at = self.length + 1 if self._segments else 0
            self._segments.append(folded)
            self._starts.append(at)
            self.length = at + len(folded.text)

    def segments(self, first: int) -> Iterator[tuple[int, str]]:
        """Yield where each text from the `first`-th on begins, and the text."""
        for number in range(first, len(self._starts)):
            yield self._starts[number], self._segments[number].text

    def is_empty(self, depth: int) -> bool:
        """Return whether an entry that scans `depth` messages has nothing to be searched."""
        return self.start_of(depth) >= self.length

    def start_of(self, depth: int) -> int:
        """Return where the text of an entry that scans `depth` messages begins."""
        segment = max(0, self._messages - depth)
        return self._starts[segment] if segment < len(self._starts) else self.length

    def around(self, start: int, end: int) -> tuple[str, int]:
        """Return the text that a hit lies in, and where that begins.

        It is the joined text, from 0 on, for a hit with a line break in it.
        """
        at = bisect_right(self._starts, start) - 1
        begin, text = self._starts[at], self._segments[at].text
        return (text, begin) if end <= begin + len(text) else (self.text, 0)

    def occurrences(self, wanted: str, begin: int, steps: Steps) -> Iterator[int]:
        """Yield where a key begins at or after a place, in order."""
        if "\n" in wanted:
            yield from occurrences(self.text, wanted, begin, steps)
            return
        for at in range(max(0, bisect_right(self._starts, begin) - 1), len(self._starts)):
            first, text = self._starts[at], self._segments[at].text
            for start in occurrences(text, wanted, max(0, begin - first), steps):
                yield first + start

    def place(self, start: int, end: int) -> Place | None:
        """Return where a hit lies in the original texts, None when it cuts a character of one."""
        starts = self._starts
        first = bisect_right(starts, start) - 1
        low, begin = self._segments[first], starts[first]
        if end <= begin + len(low.text):
            span = low.original_span(start - begin, end - begin)
        else:  # a hit with a line break in it: measured from the text that it begins in
            last = bisect_right(starts, end) - 1
            head = low.original_span(start - begin, len(low.text))
            tail = self._segments[last].original_span(0, end - starts[last])
            between = sum(s.length + 1 for s in self._segments[first:last])
            span = (head[0], between + tail[1]) if head and tail else None
        if span is None:
            return None
        supplied = first >= self._messages
        return Place(supplied, first - self._messages if supplied else self._first + first, span)
