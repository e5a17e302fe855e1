"""A probe for readiness: whether the database accepts writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

_KEEP_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 1.5
CHECK_SECONDS: Final = 2.0
"""The time limit of a readiness check, including the write."""


class Probe:
    """Tries a write, and caches the result for a second. Belongs to one event loop."""

    def __init__(self, attempt: Callable[[], Awaitable[bool]]) -> None:
        """Use `attempt`, which tries one write and returns whether it succeeded."""
        self._attempt = attempt
        self._trying: asyncio.Future[bool] | None = None
        self._tried_at = 0.0
        self._takes_writes = True

    async def takes_writes(self) -> bool:
        """Return whether the database accepts writes; False if the attempt hangs."""
        if self._trying is None:
            if self._tried_at and time.monotonic() - self._tried_at < _KEEP_SECONDS:
                return self._takes_writes
            self._trying = asyncio.ensure_future(self._attempt())
            self._trying.add_done_callback(self._end)
        done, _ = await asyncio.wait((self._trying,), timeout=_WAIT_SECONDS)
        return bool(done) and self._takes_writes

    def _end(self, trying: asyncio.Future[bool]) -> None:
        self._trying = None
        self._tried_at = time.monotonic()
        self._takes_writes = not trying.cancelled() and not trying.exception() and trying.result()
