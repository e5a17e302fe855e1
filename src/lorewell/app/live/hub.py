"""The hub of the live channel: it writes published events, and delivers events to subscribers.

All events take the same path, whichever process made them: into the table, many in one transaction,
and from there in the order of their ids to the subscribers of their prompt.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.subscription import Frame, Subscription
from lorewell.app.ports import Clock, Store, Transaction
from lorewell.app.rows import LiveEvent, LiveMost
from lorewell.app.times import stamp
from lorewell.errors import StorageUnavailableError
from lorewell.model.live import (
    LiveMissed,
    LiveReady,
    LiveSelection,
    Occasion,
    SelectionContext,
    numbered,
)

MAX_WAITING = 2_000
MAX_KEPT = 50_000
MAX_REPLAYED = 1_000
MAX_REPLAYED_BYTES = 8 * 1024 * 1024
MAX_LOST_PROMPTS = 1_000
_MAX_BATCH = 500
_MAX_READ = 100
# Delivering a frame takes about 0.1 ms of the event loop, and selections wait for it. So few frames
# are delivered at once, with pauses in between, but not so many that events pile up.
_FEW, _MAX_PAUSES, _PAUSE_SECONDS = 3, 60, 0.001
_SECONDS_BETWEEN_WRITES = 0.1  # each write makes short turns look up their books again
_SECONDS_BETWEEN_DROPS = 10.0
_SECONDS_WITHOUT_HEARING = 2.0  # a transaction pooler passes no notifications on
_SECONDS_BETWEEN_ATTEMPTS = 0.5

Make = Callable[[SelectionContext], LiveSelection]
LedgerPath = Callable[[LedgerRef], str]


@dataclass(slots=True)
class LiveCounts:
    """Counters since the start of this process.

    Attributes:
        published: events that were written.
        lost: events that were dropped because writing was too slow.
        told: frames that were delivered to subscribers.
        slow: subscribers that were dropped.
    """

    published: int = 0
    lost: int = 0
    told: int = 0
    slow: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    tenant_id: str
    occasion: Occasion
    at: datetime
    make: Make
    ledger: LedgerRef | None


class LiveHub:
    """The live channel of one process. Belongs to one event loop."""

    def __init__(self, store: Store, clock: Clock, *, keep_s: int) -> None:
        """Publish to `store`, which keeps events for `keep_s` seconds."""
        self._store, self._clock = store, clock
        self._keep = timedelta(seconds=keep_s)
        self._waiting: deque[_Waiting] = deque()
        self._lost: dict[tuple[str, str], int] = {}
        self._to_write = asyncio.Event()
        self._heard = asyncio.Event()
        self._beginning, self._flushing = asyncio.Lock(), asyncio.Lock()
        self._last: int | None = None  # the last delivered id; None without subscribers
        self._subscribers: dict[tuple[str, str], set[Subscription]] = defaultdict(set)
        self._drop_at = 0.0
        self._writing: asyncio.Future[None] | None = None
        self._ledger_path: LedgerPath | None = None
        self.counts = LiveCounts()

    def link_ledgers(self, path: LedgerPath) -> None:
        """Put the path of its ledger into each event from now on; before, events have none."""
        self._ledger_path = path

    def publish(
        self, tenant_id: str, occasion: Occasion, make: Make, ledger: LedgerRef | None = None
    ) -> None:
        """Queue an event, to be made and written soon. A full queue drops its oldest event."""
        if len(self._waiting) >= MAX_WAITING:
            self._lose(self._waiting.popleft())
        self._waiting.append(_Waiting(tenant_id, occasion, self._clock.now(), make, ledger))
        self._to_write.set()

    def _lose(self, waiting: _Waiting) -> None:
        self.counts.lost += 1
        name = (waiting.tenant_id, waiting.occasion.prompt_id)
        if name in self._lost or len(self._lost) < MAX_LOST_PROMPTS:
            self._lost[name] = self._lost.get(name, 0) + 1

    @asynccontextmanager
    async def subscribe(
        self, tenant_id: str, prompt_id: str, last_id: int | None
    ) -> AsyncIterator[Subscription]:
        """Yield a subscription to a prompt, which starts with the events missed since `last_id`.

        Raises:
            StorageUnavailableError: the missed events can't be read.
        """
        until = await self._begin()
        name, subscription = (tenant_id, prompt_id), Subscription()
        # Events read from now on are queued for it, and those up to `until` are replayed: so none
        # is left out, and none comes twice.
        self._subscribers[name].add(subscription)
        try:
            first = [_frame("ready", 0, _ready(tenant_id, prompt_id, until))]
            after = 0
            if last_id is not None:
                missed, after = await self._replay(name, last_id, until)
                first += missed
            subscription.begin(first, after=after)
            yield subscription
        finally:
            self._subscribers[name].discard(subscription)
            if not self._subscribers[name]:
                del self._subscribers[name]

    async def _begin(self) -> int:
        async with self._beginning:
            if self._last is None:
                self._last = (await self._store.read(lambda tx: tx.live_ids()))[1]
            return self._last

    async def _replay(
        self, name: tuple[str, str], last_id: int, until: int
    ) -> tuple[list[Frame], int]:
        """Return the events since an id, and the id that the client has certainly seen."""
        most = LiveMost(MAX_REPLAYED, MAX_REPLAYED_BYTES)

        def work(tx: Transaction) -> tuple[tuple[int, int], tuple[Sequence[LiveEvent], bool]]:
            return tx.live_ids(), tx.list_live_of(*name, after=last_id, until=until, most=most)

        (oldest, newest), (found, are_all) = await self._store.read(work)
        if last_id > newest:
            return [_missed(LiveMissed(reason="unknown", after=None, before=newest + 1))], 0
        frames = []
        if oldest > last_id + 1:
            frames.append(_missed(LiveMissed(reason="expired", after=last_id, before=oldest)))
        if not are_all:
            before = found[0].id
            frames.append(_missed(LiveMissed(reason="too_many", after=last_id, before=before)))
        # Another process may have delivered more than this one has read yet.
        return frames + [_event_frame(each) for each in found], last_id

    async def run(self) -> None:
        """Write published events and deliver written ones, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.hear(self._heard.set))
            tasks.create_task(self._write())
            tasks.create_task(self._follow())

    async def flush(self) -> None:
        """Write the waiting events.

        Raises:
            StorageUnavailableError: writing failed; the events stay queued.
        """
        async with self._flushing:
            if self._writing is not None and not self._writing.done():  # begun by a cancelled flush
                await asyncio.wait((self._writing,))
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting or self._lost:
            lost, self._lost = self._lost, {}
            taken = [self._waiting.popleft() for _ in range(min(_MAX_BATCH, len(self._waiting)))]
            now = self._clock.now()
            events = [_lost_event(name, count, now) for name, count in lost.items()]
            try:
                for each in taken:
                    made = self._make(each)
                    if made is not None:
                        events.append(made)
                    await asyncio.sleep(0)  # let selections run in between
                # A write continues after a cancellation: its outcome would be unknown.
                writing = asyncio.ensure_future(self._store.write(self._adding(events, now)))
            except asyncio.CancelledError:
                self._put_back(taken, lost)
                raise
            self._writing = writing
            try:
                await asyncio.shield(writing)
            except StorageUnavailableError:
                self._put_back(taken, lost)
                raise
            self.counts.published += len(events) - len(lost)
            self._heard.set()

    def _adding(self, events: Sequence[LiveEvent], now: datetime) -> Callable[[Transaction], None]:
        loop_time = asyncio.get_running_loop().time()
        drops = loop_time >= self._drop_at
        if drops:
            self._drop_at = loop_time + _SECONDS_BETWEEN_DROPS

        def work(tx: Transaction) -> None:
            if events:
                tx.add_live(events)
            if drops:
                tx.drop_live(made_before=now - self._keep, most=MAX_KEPT)

        return work

    def _make(self, waiting: _Waiting) -> LiveEvent | None:
        path, ledger = self._ledger_path, waiting.ledger
        context = SelectionContext(
            tenant_id=waiting.tenant_id,
            occasion=waiting.occasion,
            at=stamp(waiting.at),
            ledger=None if path is None or ledger is None else path(ledger),
        )
        try:
            body = waiting.make(context).to_json()
        except Exception as error:  # noqa: BLE001  one failure must not stop other events
            failure = {"message": "A live event could not be made.", "exception": error}
            asyncio.get_running_loop().call_exception_handler(failure)
            return None
        return LiveEvent(
            tenant_id=waiting.tenant_id,
            prompt_id=waiting.occasion.prompt_id,
            made_at=waiting.at,
            body=body,
        )

    def _put_back(self, taken: Sequence[_Waiting], lost: dict[tuple[str, str], int]) -> None:
        for name, count in lost.items():
            self._lost[name] = self._lost.get(name, 0) + count
        self._waiting.extendleft(reversed(taken))
        while len(self._waiting) > MAX_WAITING:
            self._lose(self._waiting.popleft())

    async def _write(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            try:
                await self.flush()
            except StorageUnavailableError:
                self._to_write.set()
                await asyncio.sleep(_SECONDS_BETWEEN_ATTEMPTS)
            await asyncio.sleep(_SECONDS_BETWEEN_WRITES)

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_WITHOUT_HEARING):
                    await self._heard.wait()
            self._heard.clear()
            if not self._subscribers:
                self._last = None
                continue
            try:
                while await self._deliver_more():
                    pass
            except StorageUnavailableError:
                self._heard.set()
                await asyncio.sleep(_SECONDS_BETWEEN_ATTEMPTS)

    async def _deliver_more(self) -> bool:
        """Deliver new events; return whether there may be more."""
        after = await self._begin()

        def work(tx: Transaction) -> tuple[int, Sequence[LiveEvent]]:
            return tx.live_ids()[0], tx.list_live(after=after, limit=_MAX_READ)

        oldest, found = await self._store.read(work)
        first = []
        if oldest > after + 1:  # the database was unavailable for longer than events are kept
            first.append(_missed(LiveMissed(reason="expired", after=after, before=oldest)))
        frames: dict[tuple[str, str], list[Frame]] = defaultdict(list)
        for event in found:
            name = (event.tenant_id, event.prompt_id)
            if name in self._subscribers:
                frames[name].append(_event_frame(event))
        deliveries = [
            (each, new)
            for name, subscribers in self._subscribers.items()
            if (new := first + frames.get(name, []))
            for each in subscribers
        ]
        if found:  # later subscribers replay these events, and present ones get them below
            self._last = found[-1].id
        at_once = max(_FEW, len(deliveries) // _MAX_PAUSES)
        for count, (each, new) in enumerate(deliveries, 1):
            self.counts.told += len(new)
            if not each.offer(new):
                self.counts.slow += 1
            if count % at_once == 0:
                await asyncio.sleep(_PAUSE_SECONDS)
        return len(found) == _MAX_READ


def _ready(tenant_id: str, prompt_id: str, last_id: int) -> bytes:
    return LiveReady(tenant_id=tenant_id, prompt_id=prompt_id, last_id=last_id).to_json()


def _frame(kind: str, number: int, body: bytes) -> Frame:
    return Frame(kind, number, body.decode())


def _event_frame(event: LiveEvent) -> Frame:
    kind = "missed" if event.body.startswith(_MISSED) else "selection"
    return _frame(kind, event.id, numbered(event.body, event.id))


_MISSED = b'{"type":"missed"'


def _missed(missed: LiveMissed) -> Frame:
    return _frame("missed", 0, missed.to_json())


def _lost_event(name: tuple[str, str], count: int, now: datetime) -> LiveEvent:
    body = LiveMissed(reason="overflow", count=count).to_json()
    return LiveEvent(tenant_id=name[0], prompt_id=name[1], made_at=now, body=body)
