"""The searched text: the last messages, then the texts that recursion adds (§8.3, §8.5)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lorewell.engine.matching.fold import Folded, Form, steps_to_fold
from lorewell.engine.matching.literal import occurrences
from lorewell.engine.matching.words import stands_alone
from lorewell.engine.steps import Steps


class HitPlace(NamedTuple):
    """The place of a hit: `span` of message `number` or, if `supplied`, of supply text `number`."""

    supplied: bool
    number: int
    span: tuple[int, int]


class Haystack:
    """Messages and supply texts, joined by newlines, folded for comparison.

    Every entry sees a suffix, which starts at `start_of(depth)`, so one text serves all depths.
    The text only grows at its end.
    """

    def __init__(self, messages: Sequence[str], *, depth: int, form: Form, steps: Steps) -> None:
        """Start with the last `depth` messages; their numbers are their indexes in `messages`.

        `form` folds each text.
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
        """The joined texts, built on demand: most keys are searched in single texts."""
        fresh = self._segments[self._joined_segments :]
        if fresh:
            parts = [self._joined] if self._joined_segments else []
            self._joined = "\n".join([*parts, *(folded.text for folded in fresh)])
            self._joined_segments = len(self._segments)
        return self._joined

    def extend(self, texts: Sequence[str]) -> None:
        """Add texts at the end."""
        self._steps.spend("matching", steps_to_fold(texts))
        for text in texts:
            folded = self._form(text, self._steps)
            at = self.length + 1 if self._segments else 0
            self._segments.append(folded)
            self._starts.append(at)
            self.length = at + len(folded.text)

    def segments(self, first: int) -> tuple[Sequence[int], Sequence[str]]:
        """Return the starts of the texts from the `first`-th on, and these texts."""
        return self._starts[first:], [folded.text for folded in self._segments[first:]]

    def is_empty(self, depth: int) -> bool:
        """Return whether an entry that scans `depth` messages sees no text."""
        return self.start_of(depth) >= self.length

    def start_of(self, depth: int) -> int:
        """Return the start of the text that an entry sees if it scans `depth` messages."""
        segment = max(0, self._messages - depth)
        return self._starts[segment] if segment < len(self._starts) else self.length

    def occurrences(self, wanted: str, begin: int, steps: Steps) -> Iterator[int]:
        """Yield the starts of a key at or after a place, in order."""
        if "\n" in wanted:
            yield from occurrences(self.text, wanted, begin, steps)
            return
        for at in range(max(0, bisect_right(self._starts, begin) - 1), len(self._starts)):
            first, text = self._starts[at], self._segments[at].text
            for start in occurrences(text, wanted, max(0, begin - first), steps):
                yield first + start

    def place(self, start: int, end: int, *, alone: bool) -> HitPlace | None:
        """Return the place of a hit in the original texts.

        Args:
            start: its start in the joined text.
            end: its end in the joined text.
            alone: whether it must stand alone as a word.

        Returns:
            None if it does not stand alone, or cuts a character of the original.
        """
        starts = self._starts
        first = bisect_right(starts, start) - 1
        low, begin = self._segments[first], starts[first]
        if end <= begin + len(low.text):
            if alone and not stands_alone(low.text, start - begin, end - begin, self._steps):
                return None
            span = low.original_span(start - begin, end - begin)
        else:  # a hit across texts: its span is measured from the start of its first text
            if alone and not stands_alone(self.text, start, end, self._steps):
                return None
            last = bisect_right(starts, end) - 1
            head = low.original_span(start - begin, len(low.text))
            tail = self._segments[last].original_span(0, end - starts[last])
            between = sum(s.length + 1 for s in self._segments[first:last])
            span = (head[0], between + tail[1]) if head and tail else None
        if span is None:
            return None
        supplied = first >= self._messages
        return HitPlace(supplied, first - self._messages if supplied else self._first + first, span)
