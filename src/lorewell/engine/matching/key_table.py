"""The literal keys of a book, collected while it is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.engine.matching.literal import LiteralIndex


class KeyTable:
    """Numbers the distinct folded keys of a book and maps each to the entries that it wakes.

    One table holds the keys of one form: those for which case counts, or the others.
    """

    __slots__ = ("_anywhere", "_as_word", "_base", "_patterns")

    def __init__(self, base: LiteralIndex | None = None) -> None:
        """Start with no keys, or with those of an index that this table extends."""
        self._base = base
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
        number = self._patterns.setdefault(folded, len(self._patterns))
        if number == len(self._anywhere):
            self._anywhere.append({})
        if wakes is not None:
            self._anywhere[number][wakes] = None
        return number if self._base is None else number + len(self._base.patterns)

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
        woken = [tuple(each) for each in self._anywhere]
        if self._base is not None:
            return self._base.extended(tuple(self._patterns), woken)
        return LiteralIndex(tuple(self._patterns), woken)

    def woken_as_word(self) -> Mapping[int, tuple[int, ...]]:
        """Return the entries that each tracked pattern wakes only where it stands alone."""
        return {pattern: tuple(woken) for pattern, woken in self._as_word.items()}
