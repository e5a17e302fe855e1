"""Threads that compute in time slices; the tenant that used the least time goes first.

Python runs one thread at a time, so each computing thread delays the event loop. Only a few compute
at once; threads that wait for their next slice cost nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import monotonic
from typing import Final, NamedTuple

from lorewell.errors import OverloadedError

SLICE_SECONDS: Final = 0.02
# After this time without a pause, work no longer blocks other work from starting.
LEND_SECONDS: Final = 0.05
# Until then it delays other work of its tenant.
GIVE_UP_SECONDS: Final = 10.0


class TimeLimit(NamedTuple):
    """A limit in seconds, and the setting that changes it."""

    seconds: float
    setting: str


@dataclass(slots=True)
class Spent:
    """The seconds that a request has spent computing, and waiting to compute."""

    computing: float = 0.0
    waiting: float = 0.0


@dataclass(slots=True, eq=False, kw_only=True)
class Work:
    """A piece of work.

    Attributes:
        tenant_id: the tenant of the request.
        function: does the work, and never raises.
        spent: the time that the request has spent.
        limit: the compute time limit of the request.
        patience: the waiting time limit of the request.
        ends_with: raised at the next pause, to end the work.
        since: start of the current slice or wait.
        has_begun: whether it has a thread.
    """

    tenant_id: str
    function: Callable[[], None]
    spent: Spent
    limit: TimeLimit
    patience: TimeLimit
    ends_with: Exception | None = None
    since: float = 0.0
    is_waiting: bool = False
    has_begun: bool = False
    gate: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Close the gate, which opens for one slice at a time."""
        self.gate.acquire()

    def seconds_left(self, now: float) -> float:
        """Return the remaining compute time of work that is not waiting."""
        return self.limit.seconds - self.spent.computing - (now - self.since)

    def overdue(self, now: float) -> Exception | None:
        """Return the error if the work exceeds its time, else None."""
        if self.is_waiting:
            if self.spent.waiting + now - self.since > self.patience.seconds:
                return waited_too_long(self.patience)
        elif self.seconds_left(now) < 0:
            message = f"The request takes more than {self.limit.seconds:g} seconds to compute."
            return overloaded(message, self.limit.setting, limit=self.limit.seconds)
        return None


def overloaded(message: str, setting: str, limit: float) -> OverloadedError:
    """Return the error for an exceeded limit, with the name of its setting."""
    return OverloadedError(f"{message} The limit is {setting}.", setting=setting, limit=limit)


def waited_too_long(patience: TimeLimit) -> OverloadedError:
    """Return the error for a request that exceeded its waiting time."""
    seconds, setting = patience
    message = f"The service is busy: the request waited {seconds:g} seconds for its turn."
    return overloaded(message, setting, limit=seconds)


class _Line:
    """The waiting work of one tenant, and the seconds that all its work has used."""

    __slots__ = ("_begun", "_fresh", "_takes_fresh", "count", "used")

    def __init__(self, used: float) -> None:
        self.used = used
        self.count = 0
        self._fresh: deque[Work] = deque()
        self._begun: deque[Work] = deque()
        self._takes_fresh = True

    def __bool__(self) -> bool:
        return bool(self._fresh or self._begun)

    def add(self, work: Work) -> None:
        (self._begun if work.has_begun else self._fresh).append(work)

    def remove(self, work: Work) -> None:
        (self._begun if work.has_begun else self._fresh).remove(work)

    def take(self) -> Work:
        """Return the next work, alternating new and begun work so that short work waits less."""
        takes_fresh = bool(self._fresh) and (self._takes_fresh or not self._begun)
        self._takes_fresh = not takes_fresh
        return (self._fresh if takes_fresh else self._begun).popleft()


class Slices:
    """Threads for the work of many tenants, of which only a few compute at a time.

    The next slice goes to the tenant whose work has used the least time. Within a tenant, work
    takes turns, alternating between new and begun work. Work that does not pause delays its own
    tenant alone. Thread-safe.
    """

    def __init__(self, threads: int) -> None:
        """Let `threads` threads compute at a time."""
        self._threads = threads
        self._lock = threading.Lock()
        self._computing: set[Work] = set()
        self._stuck: set[Work] = set()
        self._lines: dict[str, _Line] = {}
        self._waiting = 0
        self._todo: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = 0
        self._is_closed = False

    def submit(self, work: Work) -> None:
        """Queue the work, to start at its turn."""
        with self._lock:
            line = self._lines.get(work.tenant_id)
            if line is None:
                used = min((each.used for each in self._lines.values()), default=0.0)
                line = self._lines[work.tenant_id] = _Line(used)
            line.count += 1
            self._wait(work, monotonic())
            self._dispatch()

    def pause(self, work: Work) -> None:
        """Yield to other work if the slice is over. The work calls this often.

        Raises:
            Exception: the work must end.
        """
        now = monotonic()
        reason = work.ends_with or work.overdue(now)
        if reason is not None:
            raise reason
        is_lent = work not in self._computing
        if not is_lent and (now - work.since < SLICE_SECONDS or not self._waiting):
            return
        with self._lock:
            self._charge(work, now)
            self._wait(work, now)
            self._dispatch()
        work.gate.acquire()
        if work.ends_with is not None:
            raise work.ends_with

    def end(self, work: Work, reason: Exception) -> bool:
        """End the work at its next pause; return True if it has not started and never will."""
        with self._lock:
            work.ends_with = reason
            if not work.is_waiting:
                return False
            self._lines[work.tenant_id].remove(work)
            self._stop_waiting(work, monotonic())
            if work.has_begun:
                work.gate.release()  # to end at once, without a slice
                return False
            self._forget(work)
            return True

    def find_overdue(self, works: Iterable[Work]) -> list[tuple[Work, Exception]]:
        """Return the works that exceed their time, with their errors."""
        now = monotonic()
        with self._lock:
            return [
                (work, reason)
                for work in works
                if work.ends_with is None and (reason := work.overdue(now)) is not None
            ]

    def lend(self) -> None:
        """Let work of other tenants start beside work that does not pause."""
        if not self._waiting:
            return
        now = monotonic()
        with self._lock:
            stuck = {work for work in self._computing if now - work.since > LEND_SECONDS}
            self._computing -= stuck
            self._stuck |= stuck
            self._dispatch()

    def close(self) -> None:
        """Let each thread end after its work."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._idle):
                self._todo.put(None)
            self._idle = 0

    def _dispatch(self) -> None:
        # Work that does not pause for so long may be in a call that never returns.
        late = monotonic() - GIVE_UP_SECONDS
        held_up = {work.tenant_id for work in self._stuck if work.since > late}
        while len(self._computing) < self._threads:
            lines = [
                line for tenant_id, line in self._lines.items() if line and tenant_id not in held_up
            ]
            if not lines:
                break
            work = min(lines, key=lambda line: line.used).take()
            self._stop_waiting(work, monotonic())
            self._computing.add(work)
            if work.has_begun:
                work.gate.release()
                continue
            work.has_begun = True
            if self._idle:
                self._idle -= 1
                self._todo.put(work)
            else:
                # A daemon: a native call that never returns must not block the exit of the process.
                threading.Thread(
                    target=self._serve, args=(work,), name="lorewell-compute", daemon=True
                ).start()

    def _serve(self, work: Work | None) -> None:
        while work is not None:
            work.function()
            with self._lock:
                self._charge(work, monotonic())
                self._forget(work)
                goes_on = not self._is_closed and self._idle < self._threads
                self._idle += goes_on
                self._dispatch()
            work = self._todo.get() if goes_on else None

    def _wait(self, work: Work, now: float) -> None:
        work.since, work.is_waiting = now, True
        self._waiting += 1
        self._lines[work.tenant_id].add(work)

    def _stop_waiting(self, work: Work, now: float) -> None:
        work.spent.waiting += now - work.since
        work.since, work.is_waiting = now, False
        self._waiting -= 1

    def _charge(self, work: Work, now: float) -> None:
        passed = now - work.since
        work.spent.computing += passed
        self._lines[work.tenant_id].used += passed
        self._computing.discard(work)
        self._stuck.discard(work)

    def _forget(self, work: Work) -> None:
        line = self._lines[work.tenant_id]
        line.count -= 1
        if not line.count:
            del self._lines[work.tenant_id]
