"""Counts the cost of work in steps that are the same on every machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from lorewell.errors import TooExpensiveError

MAX_STEPS: Final = 2_000_000  # one to two seconds of work
NO_LIMIT: Final = 2**63 - 1  # for work that only pauses
MAX_CHARS: Final = 10_000_000  # as many as the entries of one turn may hold
_CHARS_PER_STEP: Final = 200  # of a text that is read or compared
_WATCH_EVERY: Final = 2_000  # steps between two calls of `watch`: a few milliseconds


def _go_on() -> None:
    """Do nothing: the default of `watch`."""


class Steps:
    """The step budget of one turn. Not shared between threads.

    A step is about a microsecond of work. The count depends only on the input, never on caches:
    a turn that is too expensive is too expensive on every machine.

    Attributes:
        limit: maximum number of steps.
        max_chars: maximum number of characters made by macros, templates and escapes.
        spent: steps spent so far.
        chars: characters made so far.
        by: steps spent so far, by kind of work: `compile`, `conditions`, `groups`, `keys`,
            `ledger`, `lint`, `macros`, `matching`, `output`, `packing`, `recall`, `regex`, `scan`,
            `tokens` or `turns`; for reading a foreign file `bytes`, `chunks`, `entries`,
            `inflating`, `members`, `objects`, `quarantine`, `regex`, `repairs`, `texts` or
            `values`.
        chars_by: characters made so far, by source: `escaping`, `macros`, `outlets` or `queries`.
    """

    __slots__ = (
        "_next_check",
        "_watch",
        "by",
        "chars",
        "chars_by",
        "limit",
        "max_chars",
        "spent",
    )

    def __init__(
        self,
        limit: int = MAX_STEPS,
        *,
        max_chars: int = MAX_CHARS,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Start with nothing spent.

        Args:
            limit: maximum number of steps, >= 0.
            max_chars: maximum number of characters made by macros, templates and escapes, >= 0.
            watch: called every few milliseconds of work. It raises to stop the work, if the client
                has left or time has run out. The core itself reads no clock.
        """
        self.limit = limit
        self.max_chars = max_chars
        self.spent = 0
        self.chars = 0
        self.by: dict[str, int] = defaultdict(int)
        self.chars_by: dict[str, int] = defaultdict(int)
        self._watch = watch or _go_on
        self._next_check = min(limit + 1, _WATCH_EVERY)

    def spend(self, kind: str, count: int = 1) -> None:
        """Spend steps on work that is about to be done.

        Args:
            kind: the kind of work, for example `matching`.
            count: steps, >= 0.

        Raises:
            TooExpensiveError: the limit is exceeded. `details` has the figures, up to the first
                step beyond the limit.
        """
        self.spent += count
        self.by[kind] += count
        if self.spent >= self._next_check:
            self._check(kind)

    def _check(self, kind: str) -> None:
        if self.spent > self.limit:
            # Work is counted in portions. Dropping the excess of the last portion makes the
            # figures independent of their size and order.
            self.by[kind] -= self.spent - self.limit - 1
            message = (
                f"This needs more than {self.limit} steps of work, which is the limit for one call."
            )
            raise TooExpensiveError(
                message, steps=self.limit + 1, max_steps=self.limit, by=_sorted(self.by)
            )
        self._next_check = min(self.limit + 1, self.spent + _WATCH_EVERY)
        self._watch()

    def watch(self) -> None:
        """Call `watch`; long loops whose steps are already spent do so every few milliseconds."""
        self._watch()

    def write(self, kind: str, count: int) -> None:
        """Count the characters of a text that is about to be made.

        Args:
            kind: the source of the text, for example `macros`.
            count: characters, >= 0.

        Raises:
            TooExpensiveError: all texts together would have more than `max_chars`. `details` has
                the figures.
        """
        self.chars += count
        self.chars_by[kind] += count
        if self.chars > self.max_chars:
            message = (
                f"Macros, templates and escapes would make {self.chars} characters of text;"
                f" at most {self.max_chars} are allowed in one turn."
            )
            by = _sorted(self.chars_by)
            raise TooExpensiveError(message, chars=self.chars, max_chars=self.max_chars, by=by)

    def begin_turn(self) -> None:
        """Reset the character count; the step count continues."""
        self.chars = 0
        self.chars_by.clear()


def weigh(value: object) -> int:
    """Return the approximate steps for reading a JSON value once."""
    match value:
        case str():
            return len(value) // _CHARS_PER_STEP
        case Mapping():
            return len(value) + sum(map(weigh, value.values()))
        case list() | tuple():
            return len(value) + sum(map(weigh, value))
        case _:
            return 0


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))
