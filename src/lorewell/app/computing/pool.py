"""The compute pool: each request takes a place, then time slices on the pool's threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final, NoReturn, TypeVar

from lorewell.app.computing.places import PlaceLimits, PlaceQueue, stopping
from lorewell.app.computing.slices import Slices, Spent, TimeLimit, Work, waited_too_long
from lorewell.engine.steps import MAX_CHARS, MAX_STEPS, NO_LIMIT, Steps
from lorewell.errors import OverloadedError, TooExpensiveError
from lorewell.formats.notes import MAX_IMPORT_STEPS
from lorewell.waiting import begin_to_wait

Result = TypeVar("Result")
Leaving = Callable[[], Coroutine[Any, Any, NoReturn]]

_TICK_SECONDS: Final = 0.02
_STEPS: Final = "LOREWELL_MAX_STEPS"
_IMPORT_STEPS: Final = "LOREWELL_MAX_IMPORT_STEPS"
_CHARS: Final = "LOREWELL_MAX_MADE_CHARS"
_UNBOUND: Final = TimeLimit(inf, "")

caller_leaves: ContextVar[Leaving | None] = ContextVar("caller_leaves", default=None)
"""Waits until the caller of this request disconnects, then raises; None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeLimits:
    """The limits of the pool.

    Attributes:
        threads: pieces of work that run in parallel.
        places: numbers of computing and of waiting requests.
        queue_seconds: maximum wait of a request.
        turn_seconds: maximum compute time of a turn, without waiting.
        import_seconds: the same for a request that reads or writes whole books.
        max_steps: steps of work per request.
        max_import_steps: steps to read one foreign file.
        max_chars: characters that macros and the like produce per request.
    """

    threads: int = 1
    places: PlaceLimits = field(default_factory=PlaceLimits)
    queue_seconds: float = 10.0
    turn_seconds: float = 2.0
    import_seconds: float = 20.0
    max_steps: int = MAX_STEPS
    max_import_steps: int = MAX_IMPORT_STEPS
    max_chars: int = MAX_CHARS


@dataclass(slots=True)
class ComputeCounts:
    """Counters since the start of this process.

    Attributes:
        refused: requests that were refused or exceeded their time.
        left: requests that ended because the caller disconnected.
    """

    refused: int = 0
    left: int = 0


class _UnwantedError(Exception):
    """No caller waits for the work any longer."""


class ComputeTurn:
    """The computing of one request: pieces of work, one after another, with one budget.

    Attributes:
        steps: counts the steps of all its work, and ends work that exceeds its time.
    """

    def __init__(
        self,
        pool: Computing,
        tenant_id: str,
        *,
        limit: TimeLimit = _UNBOUND,
        patience: TimeLimit = _UNBOUND,
        give_back: Callable[[str], None] | None = None,
    ) -> None:
        self.tenant_id, self.limit, self.patience = tenant_id, limit, patience
        self.spent = Spent()
        self._pool, self._give_back = pool, give_back
        self.steps = self.new_steps()
        self._work: Work | None = None
        self._holders = 1

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run the function in a thread of the pool and return its result.

        Raises:
            OverloadedError: the turn waits or computes too long, or the service stops.
        """
        try:
            return await self._pool.do(self, function)
        except TooExpensiveError as error:
            if "setting" in error.details:
                raise
            raise _naming(error, _STEPS if "max_steps" in error.details else _CHARS) from error

    def begin(self, function: Callable[[Steps], Result]) -> asyncio.Task[Result]:
        """Start work whose result other turns may share.

        It has no limit of time or steps, but it pauses. It continues if this turn ends, and holds
        this turn's place until it is done.
        """
        shared = ComputeTurn(self._pool, self.tenant_id)
        context = copy_context()
        context.run(caller_leaves.set, None)
        self.hold()
        work = shared.run(partial(function, shared.new_steps(NO_LIMIT)))
        task = asyncio.get_running_loop().create_task(work, context=context)
        task.add_done_callback(lambda _: self.release())
        return task

    async def wait_for(self, task: asyncio.Task[Result]) -> Result:
        """Return the result of shared work, which continues if this turn gives up.

        Raises:
            OverloadedError: it takes longer than a request may wait.
        """
        try:
            async with asyncio.timeout(self.patience.seconds):
                return await self._pool.unless_left(asyncio.shield(task))
        except TimeoutError:
            raise waited_too_long(self.patience) from None

    def new_steps(self, max_steps: int | None = None) -> Steps:
        """Return a separate budget, for work that is counted on its own."""
        limits = self._pool.limits
        most = limits.max_steps if max_steps is None else max_steps
        return Steps(most, max_chars=limits.max_chars, watch=self.pause)

    def read_file(self, read: Callable[[Steps], Result]) -> Result:
        """Read a foreign file with a step budget of its own.

        Raises:
            TooExpensiveError: it exceeds the budget.
        """
        try:
            return read(self.new_steps(self._pool.limits.max_import_steps))
        except TooExpensiveError as error:
            raise _naming(error, _IMPORT_STEPS) from error

    def pause(self) -> None:
        """Yield to other work if it is its turn. The work calls this every few milliseconds.

        Raises:
            OverloadedError: the turn waits or computes too long, or the service stops.
        """
        if self._work is not None:
            self._pool.slices.pause(self._work)

    def seconds_left(self) -> float:
        """Return the remaining compute time of the running work."""
        return inf if self._work is None else self._work.seconds_left(monotonic())

    def make_work(self, function: Callable[[], None]) -> Work:
        """Return the next piece of work."""
        self._work = Work(
            tenant_id=self.tenant_id,
            function=function,
            spent=self.spent,
            limit=self.limit,
            patience=self.patience,
        )
        return self._work

    def hold(self) -> None:
        """Keep the place until `release`."""
        self._holders += 1

    def release(self) -> None:
        """Release the place; the last release returns it."""
        self._holders -= 1
        if not self._holders and self._give_back is not None:
            self._give_back(self.tenant_id)


class Computing:
    """The compute pool of a process. Belongs to one event loop."""

    def __init__(self, limits: ComputeLimits) -> None:
        """Start threads only when there is work."""
        self.limits = limits
        self.slices = Slices(limits.threads)
        self.counts = ComputeCounts()
        self._places = PlaceQueue(limits.places)
        self._limit = TimeLimit(limits.turn_seconds, "LOREWELL_TURN_SECONDS")
        self._long_limit = TimeLimit(limits.import_seconds, "LOREWELL_IMPORT_SECONDS")
        self._patience = TimeLimit(limits.queue_seconds, "LOREWELL_QUEUE_SECONDS")
        self._active: dict[Work, tuple[ComputeTurn, asyncio.Future[Any]]] = {}
        self._tick: asyncio.TimerHandle | None = None
        self._has_ended = False

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a place."""
        return self._places.waiting

    @property
    def running(self) -> int:
        """Number of requests that have a place."""
        return self._places.taken

    @asynccontextmanager
    async def turn(
        self, tenant_id: str, *, limit: TimeLimit | None = None
    ) -> AsyncIterator[ComputeTurn]:
        """Yield a turn with a place in the pool; `limit` replaces the time limit of a turn.

        Raises:
            OverloadedError: too many requests wait, or this one waited too long.
        """
        try:
            waited = await self._take_place(tenant_id)
            turn = ComputeTurn(
                self,
                tenant_id,
                limit=limit or self._limit,
                patience=self._patience,
                give_back=self._places.give,
            )
            turn.spent.waiting = waited
            try:
                yield turn
            finally:
                turn.release()
        except OverloadedError:
            self.counts.refused += 1
            raise

    def long_turn(self, tenant_id: str) -> AbstractAsyncContextManager[ComputeTurn]:
        """Yield a turn with the longer time limit, for work on whole books or bodies."""
        return self.turn(tenant_id, limit=self._long_limit)

    async def run(self, tenant_id: str, function: Callable[[], Result]) -> Result:
        """Run the function as a long turn and return its result.

        Raises:
            OverloadedError: as `turn` and `Turn.run`.
        """
        async with self.long_turn(tenant_id) as turn:
            return await turn.run(function)

    async def finish(self, tenant_id: str, function: Callable[[], Result]) -> Result:
        """Run the function without a place or a time limit, to finish an answer or a job.

        It still takes time slices in turn with other work.

        Raises:
            OverloadedError: the service stops.
        """
        return await self.do(ComputeTurn(self, tenant_id), function)

    async def do(self, turn: ComputeTurn, function: Callable[[], Result]) -> Result:
        """Run the next piece of a turn's work."""
        if self._has_ended:
            raise stopping()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        context = copy_context()

        def compute() -> None:
            try:
                made = partial(_set_result, done, context.run(function))
            except BaseException as error:  # noqa: BLE001  passed to the waiting caller
                made = partial(_set_error, done, error)
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(self._forget, turn, work, made)

        work = turn.make_work(compute)
        turn.hold()
        self._active[work] = (turn, done)
        self.slices.submit(work)
        if self._tick is None:
            self._tick = loop.call_later(_TICK_SECONDS, self._look)
        try:
            return await self.unless_left(done)
        finally:
            if work in self._active and (done.cancelled() or not done.done()):
                done.cancel()  # nobody would see the error that ends the work
                self._end(work, _UnwantedError())

    async def unless_left(self, future: asyncio.Future[Result]) -> Result:
        """Return the result of a future; raise if the caller disconnects first."""
        leaves = caller_leaves.get()
        if leaves is None:
            return await future
        gone = asyncio.get_running_loop().create_task(leaves())
        try:
            await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            self.counts.left += 1
            return gone.result()
        finally:
            gone.cancel()
            if gone.done() and not gone.cancelled():
                gone.exception()  # seen

    def refuse(self) -> None:
        """Refuse requests that wait or would have to; running work may finish."""
        self._places.close()

    def end(self) -> None:
        """Refuse all requests, and end running work."""
        self.refuse()
        self._has_ended = True
        for work, (_, done) in tuple(self._active.items()):
            _set_error(done, stopping())
            self._end(work, stopping())

    def close(self) -> None:
        """End everything, including threads. Work that never pauses continues in its thread."""
        self.end()
        self.slices.close()
        if self._tick is not None:
            self._tick.cancel()

    async def _take_place(self, tenant_id: str) -> float:
        """Take a place, and return the seconds waited."""
        waits = self._places.take(tenant_id)
        if waits is None:
            return 0.0
        begin = monotonic()
        begin_to_wait()
        try:
            async with asyncio.timeout(self._patience.seconds):
                await self.unless_left(waits)
        except TimeoutError:
            self._places.leave(tenant_id, waits)
            raise waited_too_long(self._patience) from None
        except BaseException:
            self._places.leave(tenant_id, waits)
            raise
        return monotonic() - begin

    def _look(self) -> None:
        """End overdue work even if it does not pause, and let other work start beside it."""
        for work, reason in self.slices.find_overdue(self._active):
            _set_error(self._active[work][1], reason)
            self._end(work, reason)
        self.slices.lend()
        self._tick = None
        if self._active:
            self._tick = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._look)

    def _end(self, work: Work, reason: Exception) -> None:
        if self.slices.end(work, reason):
            self._forget(self._active[work][0], work)

    def _forget(
        self, turn: ComputeTurn, work: Work, resolve: Callable[[], None] | None = None
    ) -> None:
        del self._active[work]
        turn.release()
        if resolve is not None:
            resolve()


def _naming(error: TooExpensiveError, setting: str) -> TooExpensiveError:
    """Return the error with the name of the setting; the engine does not know settings."""
    named = TooExpensiveError(f"{error} The limit is {setting}.")
    named.details = {**error.details, "setting": setting}
    return named


def _set_result(done: asyncio.Future[Result], result: Result) -> None:
    if not done.done():
        done.set_result(result)


def _set_error(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
