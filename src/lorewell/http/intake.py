"""What a server takes in, a little of each connection in turn, so that no pass of its loop is long.

A client may send thousands of small frames, chunks or requests in one packet. To take all of them
at once would hold up every other client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from weakref import WeakKeyDictionary

MAX_WAITING_BYTES = 65_536  # of one connection; more is left to the network until these are taken
PASS_S = 0.002
MAX_AHEAD = 8
AHEAD_S = 1.0
IDLE_S = 1.0
OVER, NEW, IDLE = range(3)

_Free = dict[object, tuple[float, Callable[[], None]]]


class Intake:
    """The connections of one server that have more to be taken in, and those that are idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with no connection."""
        self._loop = loop
        self._slices: deque[Callable[[], object]] = deque()
        self._ahead: deque[Callable[[], object]] = deque()
        self._begun = 0
        self._is_due = False
        # By how little they would be missed, and of each kind the oldest first.
        self._free: tuple[_Free, ...] = ({}, {}, {})

    def take_later(self, take: Callable[[], object]) -> None:
        """Call `take` in its turn, to take in one slice."""
        self._slices.append(take)
        self._schedule()

    def begin_later(self, begin: Callable[[], object]) -> None:
        """Call `begin` in its turn, to begin a request that was sent ahead of an answer.

        Only a few of them are answered at the same time, so they delay other clients little. If a
        request began, `begin` takes a `place`.
        """
        self._ahead.append(begin)
        self._schedule()

    def place(self) -> PipelineSlot:
        """Return a place among the requests that were sent ahead."""
        self._begun += 1
        return PipelineSlot(self._loop, self._end)

    def _end(self) -> None:
        self._begun -= 1
        self._schedule()

    def _schedule(self) -> None:
        can_begin = self._ahead and self._begun < MAX_AHEAD
        if (self._slices or can_begin) and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self._is_due = False
        until = perf_counter() + PASS_S
        for _ in range(len(self._slices)):
            self._slices.popleft()()
            if perf_counter() > until:
                break
        if self._ahead and self._begun < MAX_AHEAD:
            self._ahead.popleft()()
        self._schedule()

    def set_free(self, connection: object, kind: int, close: Callable[[], None]) -> None:
        """Note that a connection has no request: it is `OVER`, `NEW` or `IDLE`.

        Args:
            connection: which one.
            kind: `OVER` if it only waits for its end, `NEW` before its first request.
            close: closes it.
        """
        self.set_busy(connection)
        self._free[kind][connection] = (self._loop.time(), close)

    def set_busy(self, connection: object) -> None:
        """Note that a connection has a request, or is gone."""
        for free in self._free:
            free.pop(connection, None)

    def make_room(self) -> bool:
        """Close the connection that would be missed least; return whether there was one."""
        for kind, free in enumerate(self._free):
            for connection, (since, close) in free.items():
                if kind == IDLE and self._loop.time() - since < IDLE_S:
                    break
                del free[connection]
                close()
                return True
        return False


class PipelineSlot:
    """A request's place among those that were sent ahead, for as long as its answer takes.

    An answer that takes long, such as a stream, gives its place back before it ends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self._ended: Callable[[], None] | None = ended
        self._timer = loop.call_later(AHEAD_S, self.leave)

    def leave(self) -> None:
        """Give the place to another request."""
        ended, self._ended = self._ended, None
        if ended is not None:
            self._timer.cancel()
            ended()


_INTAKES: WeakKeyDictionary[object, Intake] = WeakKeyDictionary()


def intake_of(server: object, loop: asyncio.AbstractEventLoop) -> Intake:
    """Return what the connections of a server share."""
    found = _INTAKES.get(server)
    if found is None:
        found = _INTAKES[server] = Intake(loop)
    return found
