"""Fair parsing of input: a slice of each connection in turn, so that event loop passes stay short.

A client may send thousands of small frames, chunks or requests in one packet. Parsing all of them
at once would delay every other client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from weakref import WeakKeyDictionary

MAX_WAITING_BYTES = 65_536  # of one connection; more stays in the network until these are parsed
PASS_S = 0.002
MAX_AHEAD = 8
AHEAD_S = 1.0
IDLE_S = 1.0
OVER, NEW, IDLE = range(3)

_Free = dict[object, tuple[float, Callable[[], None]]]


class Intake:
    """The connections of one server that have input to parse, and those that are idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without connections."""
        self._loop = loop
        self._slices: deque[Callable[[], object]] = deque()
        self._ahead: deque[Callable[[], object]] = deque()
        self._begun = 0
        self._is_due = False
        # In the order in which they are closed, and the oldest first within each kind.
        self._free: tuple[_Free, ...] = ({}, {}, {})

    def take_later(self, take: Callable[[], object]) -> None:
        """Call `take` in its turn, to parse one slice."""
        self._slices.append(take)
        self._schedule()

    def begin_later(self, begin: Callable[[], object]) -> None:
        """Call `begin` in its turn, to begin a pipelined request.

        Only a few of them are answered at the same time, so they delay other clients little. If a
        request began, `begin` takes a `place`.
        """
        self._ahead.append(begin)
        self._schedule()

    def place(self) -> PipelineSlot:
        """Return a slot among the pipelined requests."""
        self._begun += 1
        return PipelineSlot(self._loop, self._end)

    def _end(self) -> None:
        self._begun -= 1
        self._schedule()

    def _schedule(self) -> None:
        can_begin = self._ahead and self._begun < MAX_AHEAD
        if (self._slices or can_begin) and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
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
        """Mark a connection as without a request: `OVER`, `NEW` or `IDLE`.

        Args:
            connection: the connection.
            kind: `OVER` if it only waits for its end, `NEW` before its first request.
            close: closes it.
        """
        self.set_busy(connection)
        self._free[kind][connection] = (self._loop.time(), close)

    def set_busy(self, connection: object) -> None:
        """Mark a connection as busy with a request, or as gone."""
        for free in self._free:
            free.pop(connection, None)

    def make_room(self) -> bool:
        """Close the most dispensable connection; return whether there was one."""
        for kind, free in enumerate(self._free):
            for connection, (since, close) in free.items():
                if kind == IDLE and self._loop.time() - since < IDLE_S:
                    break
                del free[connection]
                close()
                return True
        return False


class PipelineSlot:
    """The slot of a pipelined request, for as long as its answer takes.

    A long answer, such as a stream, gives its slot back before it ends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self._ended: Callable[[], None] | None = ended
        self._timer = loop.call_later(AHEAD_S, self.leave)

    def leave(self) -> None:
        """Give the slot back."""
        ended, self._ended = self._ended, None
        if ended is not None:
            self._timer.cancel()
            ended()


_INTAKES: WeakKeyDictionary[object, Intake] = WeakKeyDictionary()


def intake_of(server: object, loop: asyncio.AbstractEventLoop) -> Intake:
    """Return the intake that the connections of a server share."""
    found = _INTAKES.get(server)
    if found is None:
        found = _INTAKES[server] = Intake(loop)
    return found
