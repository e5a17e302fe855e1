"""Runs one job in V8, and finds out which patterns take too long.

Two guards bound one pattern on one text. The backtrack limit decides nearly always, and always
alike (program.py). The clock is for work that is not counted so: it only ever makes a *suspect*,
by V8's own wall clock or because a call had to be interrupted, and the suspect is run again, alone;
it is blamed if that run takes too long by the CPU clock of this process, where nothing else runs.
On a busy machine that takes longer, and no pattern is blamed for it.
"""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lorewell.jsregex.engine import V8Engine

# The program comes back by itself after 10 ms, unless one pattern holds it up.
_GO_WALL_MS: Final = 25.0
# Just enough for a suspect to use up its limit on a quiet machine.
_CONFIRM_FACTOR: Final = 1.2
_CONFIRM_EXTRA_MS: Final = 3.0
_CONFIRM_TRIES: Final = 10  # each may last twice as long as the one before: V8 may be starved


class Walk:
    """The walk through one job.

    Attributes:
        spent_ms: the CPU time inside regexes so far.
    """

    def __init__(self, engine: V8Engine, left_ms: float) -> None:
        """Begin with nothing spent; after `left_ms` no further pattern is tried."""
        self.spent_ms = 0.0
        self._engine = engine
        self._left_ms = left_ms

    def run(self, job: str) -> str:
        """Return the program's results.

        Raises:
            MemoryError: V8 does not go on.
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
                    settled = self._judge()
                    # Without a suspect it was the machine: give V8 more time to come back.
                    wall_ms = _GO_WALL_MS if settled else 2 * wall_ms
                case results:
                    return results

    def _judge(self) -> bool:
        """Run the suspect once more, alone, and settle its outcome; return whether there is one."""
        limit_ms = min(float(self._engine.call("limit")), self._left_ms - self.spent_ms)
        if limit_ms <= 0:  # interrupted between two patterns; or the guard closes anyway
            return False
        wall_ms = _CONFIRM_FACTOR * limit_ms + _CONFIRM_EXTRA_MS
        for _ in range(_CONFIRM_TRIES):
            before_ms = self.spent_ms
            answer = self._timed("confirm", wall_ms)
            used_ms = self.spent_ms - before_ms
            if answer is not None or used_ms > limit_ms:
                break
            wall_ms *= 2
        to_blame = answer is None or used_ms > limit_ms
        self._engine.call("drop" if to_blame else "keep")
        return True

    def _timed(self, command: str, wall_ms: float) -> str | None:
        """Return the answer, None if the call was interrupted; count its CPU time."""
        began = process_time()
        try:
            return self._engine.call(command, wall_ms=wall_ms)
        except TimeoutError:
            self._engine.call("limit")  # waits until V8 has stopped, so that all of it counts
            return None
        finally:
            self.spent_ms += (process_time() - began) * 1000
