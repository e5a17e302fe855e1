"""The text that is searched: the last messages, then what recursion adds (§8.3, §8.5)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lorewell.engine.matching.fold import Folded


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

    def __init__(
        self, messages: Sequence[str], *, depth: int, form: Callable[[str], Folded]
    ) -> None:
        """Hold the last `depth` messages; their numbers are those in `messages`.

        `form` brings each text to the form in which it is searched.
        """
        self._form = form
        self._first = max(0, len(messages) - depth)
        self._messages = len(messages) - self._first
        self._segments: list[Folded] = []
        self._starts: list[int] = []
        self.text = ""
        self.extend(messages[self._first :])

    def extend(self, texts: Sequence[str]) -> None:
        """Add texts at the end."""
        parts = [self.text] if self._segments else []
        at = len(self.text) + 1 if self._segments else 0
        for text in texts:
            folded = self._form(text)
            self._segments.append(folded)
            self._starts.append(at)
            parts.append(folded.text)
            at += len(folded.text) + 1
        self.text = "\n".join(parts)

    def segments(self, first: int) -> Iterator[tuple[int, str]]:
        """Yield where each text from the `first`-th on begins, and the text."""
        for number in range(first, len(self._starts)):
            yield self._starts[number], self._segments[number].text

    def is_empty(self, depth: int) -> bool:
        """Return whether an entry that scans `depth` messages has nothing to be searched."""
        return self.start_of(depth) >= len(self.text)

    def start_of(self, depth: int) -> int:
        """Return where the text of an entry that scans `depth` messages begins."""
        segment = max(0, self._messages - depth)
        return self._starts[segment] if segment < len(self._starts) else len(self.text)

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
            between = sum(_length(s) + 1 for s in self._segments[first:last])
            span = (head[0], between + tail[1]) if head and tail else None
        if span is None:
            return None
        supplied = first >= self._messages
        return Place(supplied, first - self._messages if supplied else self._first + first, span)


def _length(folded: Folded) -> int:
    """Return the length of the original text."""
    return len(folded.text) if folded.ends is None else folded.ends[-1]
