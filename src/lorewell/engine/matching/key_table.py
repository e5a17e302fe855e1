"""The literal keys of a book, collected while it is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.engine.matching.literal import LiteralIndex


class KeyTable:
    """Numbers the distinct folded keys of a book and maps each to the entries that it wakes.

    One table holds the keys of one form: those for which case counts, or the others.
    """

    __slots__ = ("_anywhere", "_as_word", "_patterns")

    def __init__(self) -> None:
        """Start with no keys."""
        self._patterns: dict[str, int] = {}
        # By pattern, the entries that it wakes. Dicts keep the order and drop repeats.
        self._anywhere: list[dict[int, None]] = []
        self._as_word: dict[int, dict[int, None]] = {}

    def add(self, folded: str, *, wakes: int | None = None) -> int:
        """Return the pattern number of a folded key; equal keys share one number.

        Args:
            folded: the key.
            wakes: the entry that it wakes wherever it occurs; None for none.
        """
        pattern = self._patterns.setdefault(folded, len(self._patterns))
        if pattern == len(self._anywhere):
            self._anywhere.append({})
        if wakes is not None:
            self._anywhere[pattern][wakes] = None
        return pattern

    def track_word(self, pattern: int, *, wakes: int | None = None) -> None:
        """Track where the pattern stands alone as a word.

        Args:
            pattern: number of the pattern.
            wakes: the entry that it wakes only where it stands alone; None for none.
        """
        woken = self._as_word.setdefault(pattern, {})
        if wakes is not None:
            woken[wakes] = None

    def index(self) -> LiteralIndex:
        """Build the automaton of all keys, with the entries that each wakes wherever it occurs."""
        return LiteralIndex(tuple(self._patterns), [tuple(woken) for woken in self._anywhere])

    def woken_as_word(self) -> Mapping[int, tuple[int, ...]]:
        """Return the entries that each tracked pattern wakes only where it stands alone."""
        return {pattern: tuple(woken) for pattern, woken in self._as_word.items()}
