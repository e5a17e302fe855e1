"""The books of the last native turns, and which of these turns were short.

A short turn takes less time than the hop to a thread and back, so it runs on the event loop. The
duration of the last turn with the same books shows whether a turn is short; the store's mark shows
whether the revisions are still the newest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lorewell.app.runtime.cache import CacheKey
from lorewell.engine.native.compiled import CompiledBook

_MAX_TURNS = 500


@dataclass(slots=True)
class _Turn:
    mark: Hashable
    keys: Sequence[CacheKey[CompiledBook]]
    is_short: bool = False


class RecentTurns:
    """The last turns by the books that they used. Belongs to one event loop."""

    def __init__(self) -> None:
        """Start empty."""
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    def find(self, name: Hashable, mark: Hashable | None) -> Sequence[CacheKey[CompiledBook]]:
        """Return the cache keys of a short turn's books; empty if the store changed since."""
        turn = self._turns.get(name)
        if turn is None or mark is None or not turn.is_short:
            return ()
        if turn.mark != mark:
            self._turns.clear()
            return ()
        return turn.keys

    def keep(
        self, name: Hashable, mark: Hashable | None, keys: Sequence[CacheKey[CompiledBook]]
    ) -> None:
        """Remember a turn; the caller took `mark` before it looked up the books."""
        if mark is None:
            return
        self._turns[name] = _Turn(mark, keys)
        self._turns.move_to_end(name)
        if len(self._turns) > _MAX_TURNS:
            self._turns.popitem(last=False)

    def record_duration(self, name: Hashable, duration_ms: float, *, limit_ms: float) -> None:
        """Mark the turn as short if it took at most `limit_ms`."""
        turn = self._turns.get(name)
        if turn is not None:
            turn.is_short = duration_ms <= limit_ms
