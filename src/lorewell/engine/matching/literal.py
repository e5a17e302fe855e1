"""All literal keys of a book in one automaton pass per text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ahocorasick_rs import AhoCorasick

_MOST_KNOWN, _SHORT_CHARS, _FEW = 500, 4_000, 100  # texts; characters and hits of one
_MOST_AT_ONCE = 1_000_000  # occurrences held at once, about 100 MB


class LiteralIndex:
    """The distinct folded keys of a book, and which entries each belongs to.

    Immutable; one pass finds every key, however many there are.
    """

    __slots__ = (
        "_automaton",
        "_known",
        "_longest",
        "_stride",
        "entries",
        "longest_with_newline",
        "patterns",
    )

    def __init__(self, patterns: Sequence[str], entries: Sequence[tuple[int, ...]]) -> None:
        """Build the automaton; `entries[i]` are the indexes of the entries that use pattern i."""
        self._automaton = AhoCorasick(patterns, store_patterns=False) if patterns else None
        self.patterns = tuple(patterns)
        self.entries = tuple(entries)
        # Texts are joined by newlines, so only a key that holds one can lie across two of them.
        self.longest_with_newline = max((len(p) for p in patterns if "\n" in p), default=0)
        # Keys that end at one place differ in length, so there are at most so many of them.
        lengths = {len(pattern) for pattern in patterns}
        self._longest = max(lengths, default=0)
        self._stride = max(self._longest, _MOST_AT_ONCE // max(1, len(lengths)))
        self._known: dict[str, Sequence[tuple[int, int, int]]] = {}

    def find(self, text: str) -> Iterable[tuple[int, int, int]]:
        """Return (pattern, start, end) of every occurrence, overlapping ones too.

        Those of one pattern are in order. A long text is searched in pieces, so that however many
        keys lie in one another (`a`, `aa`, …), there is never more than a million at once.
        """
        if self._automaton is None or not text:
            return ()
        if len(text) <= self._stride:
            return self._automaton.find_matches_as_indexes(text, overlapping=True)
        return self._find_in_pieces(self._automaton, text)

    def find_again(self, text: str) -> Iterable[tuple[int, int, int]]:
        """As `find`, and remember a short text: a chat asks for most of its texts turn by turn.

        What is remembered follows from the text and the keys alone.
        """
        known = self._known.get(text)
        if known is not None:
            return known
        found = self.find(text)
        if len(text) <= _SHORT_CHARS and isinstance(found, list) and len(found) <= _FEW:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _find_in_pieces(self, automaton: AhoCorasick, text: str) -> Iterator[tuple[int, int, int]]:
        for begin in range(0, len(text), self._stride):
            piece = text[begin : begin + self._stride + self._longest - 1]
            for pattern, start, end in automaton.find_matches_as_indexes(piece, overlapping=True):
                if start < self._stride:  # what begins later, the next piece has
                    yield pattern, start + begin, end + begin
