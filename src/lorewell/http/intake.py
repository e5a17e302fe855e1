"""Fair reading of input: a slice of each connection, a request of each caller in turn.

A client may send thousands of small frames, chunks or requests in one packet, or open hundreds of
connections at once. Working on all of them at once would delay every other client.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from weakref import WeakKeyDictionary

MAX_WAITING_BYTES = 65_536  # of one connection; more stays in the network until these are parsed
PASS_S = 0.002
MAX_BEGUN = 4
BEGUN_S = 1.0
IDLE_S = 1.0
OVER, NEW, IDLE = range(3)
_UNKNOWN = "unknown"
_MAX_KEYS, _MAX_HEADER_BYTES = 1_000, 200

_Free = dict[object, tuple[float, Callable[[], None]]]


class Intake:
    """The connections of one server that have input to parse, and those that are idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without connections."""
        self._loop = loop
        self._slices: deque[Callable[[], object]] = deque()
        # A heap of the requests that wait, for each caller.
        self._requests: dict[Hashable, list[tuple[int, int, RequestSlot]]] = {}
        # Callers among them that may begin one, the next first.
        self._ready: dict[Hashable, None] = {}
        self._numbers = count()
        self._begun: Counter[Hashable] = Counter()
        self._is_due = False
        # The ids of API keys by the headers that held them, those noted last at the end.
        self._keys: OrderedDict[bytes, str] = OrderedDict()
        # In the order in which they are closed, and the oldest first within each kind.
        self._free: tuple[_Free, ...] = ({}, {}, {})

    def take_later(self, take: Callable[[], object]) -> None:
        """Call `take` in its turn, to parse one slice."""
        self._slices.append(take)
        self._schedule()

    def enter(self, slot: RequestSlot) -> None:
        """Begin a request in its turn.

        Only a few requests of a caller are worked on at the same time, so many of them delay other
        callers little. Of a caller's waiting requests, one of the connection that has had the
        fewest answers is next.
        """
        if slot.caller not in self._requests and self._has_room(slot.caller):
            self._start(slot)
        else:
            waiting = self._requests.setdefault(slot.caller, [])
            heappush(waiting, (slot.answered, next(self._numbers), slot))

    def note_key(self, header: bytes, key_id: str) -> None:
        """Remember that an `Authorization` header holds a valid API key."""
        if len(header) <= _MAX_HEADER_BYTES:
            self._keys[header] = key_id
            self._keys.move_to_end(header)
            if len(self._keys) > _MAX_KEYS:
                self._keys.popitem(last=False)

    def key_of(self, header: bytes) -> str:
        """Return the id of the key in an `Authorization` header; empty if there is no header.

        All keys that were not valid before count as one: a client could make up many.
        """
        return self._keys.get(header, _UNKNOWN if header else "")

    def _has_room(self, caller: Hashable) -> bool:
        return self._begun[caller] < MAX_BEGUN

    def _start(self, slot: RequestSlot) -> None:
        self._begun[slot.caller] += 1
        slot.start(self._loop)

    def ended(self, slot: RequestSlot) -> None:
        """Begin the next request of the slot's caller."""
        self._begun[slot.caller] -= 1
        if not self._begun[slot.caller]:
            del self._begun[slot.caller]
        if slot.caller in self._requests:
            self._ready[slot.caller] = None
            self._schedule()

    def _begin_next(self) -> None:
        """Begin a request of the next caller, which then is behind all others."""
        caller = next(iter(self._ready))
        del self._ready[caller]
        waiting = self._requests[caller]
        _, _, slot = heappop(waiting)
        if not waiting:
            del self._requests[caller]
        if not slot.is_over:
            self._start(slot)
        if waiting and self._has_room(caller):
            self._ready[caller] = None

    def _schedule(self) -> None:
        if not self._is_due and (self._slices or self._ready):
            self._is_due = True
            self._loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
        self._is_due = False
        until = perf_counter() + PASS_S
        for _ in range(len(self._slices)):
            self._slices.popleft()()
            if perf_counter() > until:
                break
        while self._ready:
            self._begin_next()
            if perf_counter() > until:
                break
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


class RequestSlot:
    """The slot of a request, until its answer begins, it waits for something, or time is over.

    Args:
        intake: gets the slot back.
        caller: has the request.
        begin: begins it.
        answered: number of earlier requests of its connection.
    """

    def __init__(
        self, intake: Intake, caller: Hashable, begin: Callable[[], object], *, answered: int = 0
    ) -> None:
        self.caller, self.answered = caller, answered
        self.is_over = False
        self._intake, self._begin = intake, begin
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin the request."""
        self._timer = loop.call_later(BEGUN_S, self.leave)
        self._begin()

    def leave(self) -> None:
        """Give the slot back; a request that has not begun never begins."""
        if self.is_over:
            return
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._intake.ended(self)


_INTAKES: WeakKeyDictionary[object, Intake] = WeakKeyDictionary()


def intake_of(server: object, loop: asyncio.AbstractEventLoop) -> Intake:
    """Return the intake that the connections of a server share."""
    found = _INTAKES.get(server)
    if found is None:
        found = _INTAKES[server] = Intake(loop)
    return found
