"""Which books were selected from last, and whether that was short.

A short selection takes less time than the way to a thread and back, so it runs where it is asked
for. What is short, the last turn of the same books tells; and whether the books are still the
newest, the store's mark.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from lorewell.app.cache import CacheKey
from lorewell.app.computing.pool import ComputeLimits
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import Steps
from lorewell.model import SelectRequest

SHORT_MS = 2.0
_SHORT_CHARS = 20_000
# A thread has to wait for the interpreter again and again, 5 ms at a time; asking for its CPU time
# instead costs as much as a fifth of a small selection.
SHORT_IN_THREAD_MS = 15.0
_MOST = 500


class NotShortError(Exception):
    """A turn that was thought to be short is not."""


def may_be_short(request: SelectRequest) -> bool:
    """Return whether the request asks for nothing that takes long by itself."""
    return (
        request.strategy == "rules"
        and request.explain != "full"
        and len(request.query) + sum(len(each.content) for each in request.history) <= _SHORT_CHARS
    )


def short_steps(limits: ComputeLimits) -> Steps:
    """Return the budget of a turn on the event loop; it raises NotShortError after a few ms."""
    return Steps(limits.max_steps, max_chars=limits.max_chars, watch=_refuse)


def _refuse() -> NoReturn:
    raise NotShortError


@dataclass(slots=True)
class _Turn:
    mark: Hashable
    keys: Sequence[CacheKey[CompiledBook]]
    is_short: bool = False


class RecentTurns:
    """The last turns by whose books they used. Belongs to one event loop."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    def find(self, name: Hashable, mark: Hashable | None) -> Sequence[CacheKey[CompiledBook]]:
        """Return the keys of a short turn's books if nothing was written since, else nothing."""
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
        """Remember a turn; `mark` was taken before its books were looked up."""
        if mark is None:
            return
        self._turns[name] = _Turn(mark, keys)
        self._turns.move_to_end(name)
        if len(self._turns) > _MOST:
            self._turns.popitem(last=False)

    def took(self, name: Hashable, duration_ms: float, *, limit_ms: float) -> None:
        """Say how long the turn took, and up to what it counts as short."""
        turn = self._turns.get(name)
        if turn is not None:
            turn.is_short = duration_ms <= limit_ms
