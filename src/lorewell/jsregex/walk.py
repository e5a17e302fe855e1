"""Runs one job in V8 and finds the patterns that take too long.

Two limits bound one pattern on one text. The backtrack limit decides in nearly all cases and is
deterministic (program.py). The clock covers work that backtracks don't count: if a pattern exceeds
it, by V8's wall clock or because a call was interrupted, the pattern is a *suspect* and runs again,
alone. It times out if that run takes too long by the CPU clock of this process, which runs nothing
else. So a busy machine makes a search slower, but never makes a pattern time out.
"""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lorewell.jsregex.engine import V8Engine

# The program returns by itself after 10 ms, unless one pattern takes longer.
_GO_WALL_MS: Final = 25.0
# Just enough for a suspect to reach its limit on an idle machine.
_CONFIRM_FACTOR: Final = 1.2
_CONFIRM_EXTRA_MS: Final = 3.0
_CONFIRM_TRIES: Final = 10  # each may last twice as long as the last one: V8 may get no CPU time


class Walk:
    """The walk through one job.

    Attributes:
        spent_ms: the CPU time inside regexes so far.
    """

    def __init__(self, engine: V8Engine, left_ms: float) -> None:
        """Start a walk; after `left_ms` of CPU time no further pattern is tried."""
        self.spent_ms = 0.0
        self._engine = engine
        self._left_ms = left_ms

    def run(self, job: str) -> str:
        """Return the program's results.

        Raises:
            MemoryError: V8 can't continue.
        """
        self._engine.call("load", job)
        wall_ms = _GO_WALL_MS
        while True:
            if self.spent_ms >= self._left_ms:
                self._engine.call("close")
            match self._timed("go", wall_ms):
                case "pause":
                    wall_ms = _GO_WALL_MS
                case "halt" | None:
                    had_suspect = self._judge()
                    # Without a suspect the machine was slow: give V8 more time to return.
                    wall_ms = _GO_WALL_MS if had_suspect else 2 * wall_ms
                case results:
                    return results

    def _judge(self) -> bool:
        """Run the suspect again, alone, and set its outcome; return whether there is a suspect."""
        limit_ms = min(float(self._engine.call("limit")), self._left_ms - self.spent_ms)
        if limit_ms <= 0:  # interrupted between two patterns, or the budget is used up anyway
            return False
        wall_ms = _CONFIRM_FACTOR * limit_ms + _CONFIRM_EXTRA_MS
        for _ in range(_CONFIRM_TRIES):
            before_ms = self.spent_ms
            answer = self._timed("confirm", wall_ms)
            used_ms = self.spent_ms - before_ms
            if answer is not None or used_ms > limit_ms:
                break
            wall_ms *= 2
        is_slow = answer is None or used_ms > limit_ms
        self._engine.call("drop" if is_slow else "keep")
        return True

    def _timed(self, command: str, wall_ms: float) -> str | None:
        """Return the answer, or None if the call was interrupted; count its CPU time."""
        began = process_time()
        try:
            return self._engine.call(command, wall_ms=wall_ms)
        except TimeoutError:
            self._engine.call("limit")  # waits until V8 has stopped, so that all its time counts
            return None
        finally:
            self.spent_ms += (process_time() - began) * 1000
