"""Places in the compute pool: limits on computing and waiting requests, in all and per tenant."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from lorewell.app.computing.slices import overloaded
from lorewell.errors import OverloadedError

_TENANT_QUEUE: Final = "LOREWELL_COMPUTE_TENANT_QUEUE"
_QUEUE: Final = "LOREWELL_COMPUTE_QUEUE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """Maximum numbers of requests.

    Attributes:
        requests: computing requests of all tenants.
        tenant_requests: computing requests of one tenant; 1 while half of all places are taken.
        queue: waiting requests of all tenants.
        tenant_queue: waiting requests of one tenant.
    """

    requests: int = 64
    tenant_requests: int = 4
    queue: int = 256
    tenant_queue: int = 64


class PlaceQueue:
    """Assigns places to requests, in turn between tenants. Belongs to one event loop."""

    def __init__(self, limits: PlaceLimits) -> None:
        """Start with all places free."""
        self._limits = limits
        self._taken: Counter[str] = Counter()
        self._count = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._is_closed = False
        self.waiting = 0

    @property
    def taken(self) -> int:
        """Number of taken places."""
        return self._count

    def take(self, tenant_id: str) -> asyncio.Future[None] | None:
        """Take a place and return None; if none is free, return a future that resolves with one.

        Raises:
            OverloadedError: too many requests wait, or the queue is closed.
        """
        if tenant_id not in self._queues and self._has_room(tenant_id):
            self._take(tenant_id)
            return None
        if self._is_closed:
            raise stopping()
        self._make_room(tenant_id)
        waits = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant_id, deque()).append(waits)
        self.waiting += 1
        return waits

    def leave(self, tenant_id: str, waits: asyncio.Future[None]) -> None:
        """Stop waiting; give the place back if it was assigned in between."""
        queue = self._queues.get(tenant_id, ())
        if waits in queue:
            self._drop(tenant_id, waits)
        elif not waits.cancelled() and waits.exception() is None:
            self.give(tenant_id)

    def give(self, tenant_id: str) -> None:
        """Give a place back."""
        self._count -= 1
        self._taken[tenant_id] -= 1
        if not self._taken[tenant_id]:
            del self._taken[tenant_id]
        self._hand_out()

    def close(self) -> None:
        """Refuse all requests that wait or would have to."""
        self._is_closed = True
        for queue in self._queues.values():
            for waits in queue:
                _refuse(waits, stopping())
        self._queues.clear()
        self.waiting = 0

    def _has_room(self, tenant_id: str) -> bool:
        limits, own = self._limits, self._taken[tenant_id]
        is_half_full = self._count >= limits.requests // 2
        most = 1 if is_half_full else limits.tenant_requests
        return own < most and self._count < limits.requests

    def _take(self, tenant_id: str) -> None:
        self._count += 1
        self._taken[tenant_id] += 1

    def _hand_out(self) -> None:
        """Assign free places to waiting requests, one per tenant in turn."""
        for tenant_id in tuple(self._queues):
            if not self._has_room(tenant_id):
                continue
            waits = self._queues[tenant_id][0]
            self._drop(tenant_id, waits)
            if tenant_id in self._queues:
                self._queues.move_to_end(tenant_id)
            if waits.done():  # cancelled: its task has no place to give back
                return self._hand_out()
            self._take(tenant_id)
            waits.set_result(None)
        return None

    def _make_room(self, tenant_id: str) -> None:
        """Make room in the queue; if it is full, refuse the last request of the longest queue."""
        own = len(self._queues.get(tenant_id, ()))
        if own >= self._limits.tenant_queue:
            message = f"{own} requests of this tenant are already waiting."
            raise overloaded(message, _TENANT_QUEUE, limit=self._limits.tenant_queue)
        if self.waiting < self._limits.queue:
            return
        error = overloaded(
            f"{self.waiting} requests are already waiting.", _QUEUE, limit=self._limits.queue
        )
        longest = max(self._queues, key=lambda each: len(self._queues[each]))
        if len(self._queues[longest]) <= own + 1:
            raise error
        waits = self._queues[longest][-1]
        self._drop(longest, waits)
        _refuse(waits, error)

    def _drop(self, tenant_id: str, waits: asyncio.Future[None]) -> None:
        queue = self._queues[tenant_id]
        queue.remove(waits)
        self.waiting -= 1
        if not queue:
            del self._queues[tenant_id]


def stopping() -> OverloadedError:
    """Return the error for requests that are refused because the service stops."""
    return OverloadedError("The service is stopping. Retry when it is back.")


def _refuse(waits: asyncio.Future[None], error: OverloadedError) -> None:
    if not waits.done():
        waits.set_exception(error)
