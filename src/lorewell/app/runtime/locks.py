"""Locks by name, which serialize changes of the same object within this process."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class NamedLocks:
    """Locks by name, each of which exists while a task holds or awaits it.

    They only avoid repeated retries: other processes do not see them, so the database guarantees
    that no change is lost. Belongs to one event loop.
    """

    def __init__(self) -> None:
        """Start without locks."""
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, *name: Hashable) -> asyncio.Lock:
        """Return the lock of a name, for `async with`."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
