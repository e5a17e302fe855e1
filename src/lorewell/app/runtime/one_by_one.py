"""Who changes the same thing in this process goes one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class OneByOne:
    """Locks by name, each there as long as somebody holds or waits for it.

    They spare those who would otherwise do their work again and again; that nothing is lost is the
    database's matter, as other processes know nothing of them. Belongs to one event loop.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def turn(self, *name: Hashable) -> asyncio.Lock:
        """Return what is held while that is changed, as `async with` does."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
