"""One subscriber of the live channel: what waits for it, and how much of it may."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

MAX_WAITING = 256


class SlowConsumer(Exception):  # noqa: N818  an end, not an error
    """A subscriber did not take its frames in time."""


class Frame(NamedTuple):
    """What is sent: its kind, its number if it has one, and its JSON, made once for everybody."""

    type: str
    id: int
    text: str


class Subscription:
    """Frames for one subscriber, in order. Who puts them in never waits."""

    def __init__(self, first: Sequence[Frame] = ()) -> None:
        self._waiting: deque[Frame] = deque()
        self._first = first
        self._after = 0
        self._arrived = asyncio.Event()
        self.is_slow = False

    def begin(self, first: Sequence[Frame], *, after: int) -> None:
        """Say what comes before all else, and after which id the rest begins."""
        self._first, self._after = first, after
        self._arrived.set()

    def offer(self, frame: Frame) -> bool:
        """Add a frame; return False if that was too much for a subscriber that was in time."""
        if self.is_slow:
            return True
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
            self.is_slow = True
        else:
            self._waiting.append(frame)
        self._arrived.set()
        return not self.is_slow

    async def take(self) -> Sequence[Frame]:
        """Wait until there is something, and return all of it.

        Raises:
            SlowConsumer: too much was waiting.
        """
        await self._arrived.wait()
        self._arrived.clear()
        if self.is_slow:
            raise SlowConsumer
        taken = [
            *self._first,
            *(each for each in self._waiting if not each.id or each.id > self._after),
        ]
        self._first = ()
        self._waiting.clear()
        return taken
