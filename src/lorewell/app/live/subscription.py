"""One subscriber of the live channel, with its bounded queue of frames."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_WAITING = 256
MAX_WAITING_CHARS = 8 * 1024 * 1024
_PIECE_CHARS = 256 * 1024


class SlowConsumer(Exception):  # noqa: N818  an end, not an error
    """A subscriber did not read its frames in time."""


@dataclass(slots=True)
class Frame:
    """A message to subscribers, made once for all of them.

    Attributes:
        type: its kind.
        id: the event's id; 0 if it has none.
        text: its JSON.
        packed: its encoded form, cached by the transport.
    """

    type: str
    id: int
    text: str
    packed: bytes = b""


class Subscription:
    """The frames for one subscriber, in order. Adding frames never waits."""

    def __init__(self) -> None:
        self._waiting: deque[Frame] = deque()
        self._first: Sequence[Frame] = ()
        self._after = self._chars = 0
        self._arrived = asyncio.Event()
        self.is_slow = False

    def begin(self, first: Sequence[Frame], *, after: int) -> None:
        """Set the first frames; of the queued frames, those up to the id `after` are skipped."""
        self._first, self._after = first, after
        self._arrived.set()

    def offer(self, frames: Sequence[Frame]) -> bool:
        """Add frames; return False if the queue overflows, once per subscriber."""
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
        """Wait for frames, and return all that are queued.

        Raises:
            SlowConsumer: the queue overflowed.
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
    """Yield the frames in groups small enough to send at once."""
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
