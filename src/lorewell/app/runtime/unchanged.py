"""Cached reads, valid while the store does not change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from lorewell.app.ports import Store, Transaction

Result = TypeVar("Result")

_MAX_RESULTS: Final = 500


class UnchangedCache(Generic[Result]):
    """The last results of a read by name, valid while the store's mark does not change.

    Belongs to one event loop. It caches nothing for a store without marks.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._known: OrderedDict[Hashable, tuple[Hashable, Result]] = OrderedDict()

    async def find(
        self, store: Store, name: Hashable, look: Callable[[Transaction], Result]
    ) -> Result:
        """Return the cached result of `look` for a name; run it if the store has changed."""
        mark = store.mark()  # before reading: a write in between must make the result stale
        known = self._known.get(name)
        if known is not None and known[0] == mark:
            return known[1]
        found = await store.read(look)
        if mark is not None:
            self._known[name] = (mark, found)
            self._known.move_to_end(name)
            if len(self._known) > _MAX_RESULTS:
                self._known.popitem(last=False)
        return found
