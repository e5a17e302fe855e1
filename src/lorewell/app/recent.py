"""Which books were selected from last, and whether that was short.

A short selection takes less time than the way to a thread and back, so it runs where it is asked
for. What is short, the last turn of the same books tells; and whether the books are still the
newest, the store's mark.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lorewell.app.cache import CacheKey

SHORT_MS = 2.0  # CPU time: on a busy machine the clock would tell of others' work
_MOST = 500


@dataclass(slots=True)
class _Turn:
    mark: Hashable
    keys: Sequence[CacheKey]
    cpu_ms: float


class Recent:
    """The last turns by whose books they used. Belongs to one event loop."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    def find(self, name: Hashable, mark: Hashable | None) -> Sequence[CacheKey]:
        """Return the keys of a short turn's books if nothing was written since, else nothing."""
        turn = self._turns.get(name)
        if turn is None or mark is None or turn.cpu_ms > SHORT_MS:
            return ()
        if turn.mark != mark:
            self._turns.clear()
            return ()
        return turn.keys

    def keep(
        self, name: Hashable, mark: Hashable | None, keys: Sequence[CacheKey], cpu_ms: float
    ) -> None:
        """Remember a turn; `mark` was taken before its books were looked up."""
        if mark is None:
            return
        self._turns[name] = _Turn(mark, keys, cpu_ms)
        self._turns.move_to_end(name)
        if len(self._turns) > _MOST:
            self._turns.popitem(last=False)

    def took(self, name: Hashable, cpu_ms: float) -> None:
        """Say how much CPU time the turn took this time."""
        turn = self._turns.get(name)
        if turn is not None:
            turn.cpu_ms = cpu_ms
