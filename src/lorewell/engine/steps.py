"""Counts what a piece of work costs, in steps that are the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from lorewell.errors import TooExpensiveError

MAX_STEPS: Final = 2_000_000  # about two seconds on a slow core
_WATCH_EVERY: Final = 2_000  # steps between two calls of `watch`: a few milliseconds


class Steps:
    """The budget of one turn, import or search. Not shared between threads.

    A step is about a microsecond of work. The count depends on the input alone, so a turn that is
    too expensive is too expensive everywhere.

    Attributes:
        limit: steps that may be spent.
        spent: steps spent so far.
        by: steps spent so far, by the kind of work.
    """

    __slots__ = ("_next_watch", "_watch", "by", "limit", "spent")

    def __init__(self, limit: int = MAX_STEPS, *, watch: Callable[[], None] | None = None) -> None:
        """Begin with nothing spent.

        Args:
            limit: steps that may be spent, >= 0.
            watch: called every few milliseconds of work. It raises to end the work: the caller
                left, or the wall clock ran out. The core itself reads no clock.
        """
        self.limit = limit
        self.spent = 0
        self.by: Counter[str] = Counter()
        self._watch = watch
        self._next_watch = _WATCH_EVERY

    def spend(self, kind: str, count: int = 1) -> None:
        """Count work before it is done.

        Args:
            kind: what costs it, for example `matching`.
            count: steps, >= 0.

        Raises:
            TooExpensiveError: the limit is exceeded. `details` have the figures.
        """
        self.spent += count
        self.by[kind] += count
        if self.spent > self.limit:
            message = f"This needs more than {self.limit} steps of work."
            by = dict(sorted(self.by.items()))
            raise TooExpensiveError(message, steps=self.spent, max_steps=self.limit, by=by)
        if self._watch is not None and self.spent >= self._next_watch:
            self._next_watch = self.spent + _WATCH_EVERY
            self._watch()
