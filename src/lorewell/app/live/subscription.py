"""One subscriber of the live channel: what waits for it, and how much of it may."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_WAITING = 256
MAX_WAITING_CHARS = 8 * 1024 * 1024
_PIECE_CHARS = 256 * 1024


class SlowConsumer(Exception):  # noqa: N818  an end, not an error
    """A subscriber did not take its frames in time."""


@dataclass(slots=True)
class Frame:
    """What is sent: made once for everybody who gets it.

    Attributes:
        type: its kind.
        id: its number; 0 if it has none.
        text: its JSON.
        packed: what a transport makes of it, the first time that it sends it.
    """

    type: str
    id: int
    text: str
    packed: bytes = b""


class Subscription:
    """Frames for one subscriber, in order. Who puts them in never waits."""

    def __init__(self) -> None:
        self._waiting: deque[Frame] = deque()
        self._first: Sequence[Frame] = ()
        self._after = self._chars = 0
        self._arrived = asyncio.Event()
        self.is_slow = False

    def begin(self, first: Sequence[Frame], *, after: int) -> None:
        """Say what comes before all else, and after which id the rest begins."""
        self._first, self._after = first, after
        self._arrived.set()

    def offer(self, frames: Sequence[Frame]) -> bool:
        """Add frames; return False if that was too much for a subscriber that was in time."""
        if self.is_slow:
            return True
        self._chars += sum(len(frame.text) for frame in frames)
        if len(self._waiting) + len(frames) > MAX_WAITING or self._chars > MAX_WAITING_CHARS:
            self._waiting.clear()
            self.is_slow = True
        else:
            self._waiting.extend(frames)
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
        self._chars = 0
        return taken


def in_pieces(frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
    """Yield the frames, so many at a time as may be sent in one go."""
    piece: list[Frame] = []
    chars = 0
    for frame in frames:
        if piece and chars + len(frame.text) > _PIECE_CHARS:
            yield piece
            piece, chars = [], 0
        piece.append(frame)
        chars += len(frame.text)
    if piece:
        yield piece
