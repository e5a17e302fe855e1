"""All literal keys of a book in one automaton pass per text."""

from __future__ import annotations

from collections.abc import Sequence

from ahocorasick_rs import AhoCorasick


class LiteralIndex:
    """The distinct folded keys of a book, and which entries each belongs to.

    Immutable; one pass finds every key, however many there are.
    """

    __slots__ = ("_automaton", "entries", "longest_with_newline")

    def __init__(self, patterns: Sequence[str], entries: Sequence[tuple[int, ...]]) -> None:
        """Build the automaton; `entries[i]` are the indexes of the entries that use pattern i."""
        self._automaton = AhoCorasick(patterns, store_patterns=False) if patterns else None
        self.entries = tuple(entries)
        # Texts are joined by newlines, so only a key that holds one can lie across two of them.
        self.longest_with_newline = max((len(p) for p in patterns if "\n" in p), default=0)

    def find(self, text: str) -> Sequence[tuple[int, int, int]]:
        """Return (pattern, start, end) of every occurrence, overlapping ones too, by end."""
        if self._automaton is None or not text:
            return ()
        return self._automaton.find_matches_as_indexes(text, overlapping=True)
