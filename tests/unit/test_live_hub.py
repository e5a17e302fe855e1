"""The live channel in one process: order, what is missed, and what it holds at most."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes import MemoryStore
from lorewell.app.live import hub as hubs, subscription as subscriptions
from lorewell.app.live.hub import LiveHub
from lorewell.app.live.subscription import Frame, SlowConsumer, Subscription
from lorewell.app.ports import Transaction
from lorewell.app.rows import LiveEvent
from lorewell.bootstrap import SystemClock
from lorewell.errors import StorageUnavailableError
from lorewell.model.live import Occasion

PROMPT = "雾渡 🏮"


class Event:
    """Stands for an event that says one thing."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_json(self) -> bytes:
        return json.dumps({"type": "selection", "says": self._text}).encode()


class Halting(MemoryStore):
    """A store that can be made unavailable."""

    is_away = False

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        await asyncio.sleep(0)
        if self.is_away:
            raise StorageUnavailableError("Away.")
        return await super().write(work)

    async def read(self, work: Callable[[Transaction], Any]) -> Any:
        await asyncio.sleep(0)
        if self.is_away:
            raise StorageUnavailableError("Away.")
        return await super().read(work)


class Slow(MemoryStore):
    """A store that writes when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.is_writing = False

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        self.is_writing = True
        await self.goes_on.wait()
        return await super().write(work)


def publish(hub: LiveHub, text: str, prompt: str = PROMPT) -> None:
    occasion = Occasion(prompt_id=prompt, source="select")
    hub.publish("demo", occasion, lambda _context: Event(text))  # type: ignore[arg-type,return-value]  # as one


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "_SECONDS_BETWEEN_WRITES", 0.001)
    monkeypatch.setattr(hubs, "_SECONDS_BETWEEN_ATTEMPTS", 0.001)


@asynccontextmanager
async def running(store: MemoryStore) -> AsyncIterator[LiveHub]:
    hub = LiveHub(store, SystemClock(), keep_s=600)
    task = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    try:
        yield hub
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def with_hub(work: Callable[[LiveHub, Halting], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Halting()
        await store.migrate()
        async with running(store) as hub, asyncio.timeout(10):
            await work(hub, store)

    asyncio.run(run())


async def take(subscription: Subscription, count: int) -> list[Any]:
    """Return what so many frames say, those of a selection by their text."""
    frames: list[Frame] = []
    while len(frames) < count:
        frames += await subscription.take()
    assert len(frames) == count
    members = [json.loads(frame.text) for frame in frames]
    return [each.get("says", each) for each in members]


async def add(store: MemoryStore, *texts: str, prompt: str = PROMPT) -> None:
    """Add events as another process would."""
    events = [
        LiveEvent(
            tenant_id="demo",
            prompt_id=prompt,
            made_at=SystemClock().now(),
            body=Event(text).to_json(),
        )
        for text in texts
    ]
    await store.write(lambda tx: tx.add_live(events))


def test_a_prompts_events_come_in_their_order_and_no_others() -> None:
    async def work(hub: LiveHub, store: Halting) -> None:
        publish(hub, "before")
        await hub.flush()
        async with hub.subscribe("demo", PROMPT, None) as one:
            ready = (await take(one, 1))[0]
            assert ready == {
                "type": "ready",
                "tenant_id": "demo",
                "prompt_id": PROMPT,
                "last_id": 1,
            }
            async with hub.subscribe("demo", "other", None) as two:
                for number in range(5):
                    publish(hub, f"{number} 灯")
                    publish(hub, str(number), "other")
                await add(store, "from elsewhere")
                assert sorted(await take(one, 6))[:5] == [f"{n} 灯" for n in range(5)]
                assert (await take(two, 6))[1:] == [str(n) for n in range(5)]
        assert not hub._subscribers

    with_hub(work)


@pytest.mark.parametrize("last_id", range(7))
def test_replay_and_what_comes_live_leave_no_gap(last_id: int) -> None:
    async def work(hub: LiveHub, store: Halting) -> None:
        await add(store, "1", "2", "3")

        async def go_on() -> None:
            for number in range(4, 30):
                await add(store, str(number))

        going = asyncio.create_task(go_on())
        for _ in range(last_id):
            await asyncio.sleep(0)
        async with hub.subscribe("demo", PROMPT, min(last_id, 3)) as one:
            said = await take(one, 30 - min(last_id, 3))
            assert said[1:] == [str(n) for n in range(min(last_id, 3) + 1, 30)]
        await going

    with_hub(work)


def test_what_another_process_told_already_does_not_come_twice() -> None:
    """This process has read up to 2 when a client comes that saw 4 elsewhere."""

    async def work(hub: LiveHub, store: Halting) -> None:
        await add(store, "1", "2")
        async with hub.subscribe("demo", PROMPT, None):
            await add(store, "3", "4", "5")
            assert hub._last == 2
            async with hub.subscribe("demo", PROMPT, 4) as again:
                assert (await take(again, 2))[1] == "5"

    with_hub(work)


def test_what_is_no_longer_kept_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MAX_REPLAYED", 3)

    async def work(hub: LiveHub, store: Halting) -> None:
        await add(store, *"123456789")

        async def replay(last_id: int) -> list[Any]:
            async with hub.subscribe("demo", PROMPT, last_id) as one:
                return [json.loads(frame.text) for frame in await one.take()][1:]

        missed, *rest = await replay(2)
        assert missed == {
            "type": "missed",
            "reason": "too_many",
            "after": 2,
            "before": 7,
            "count": None,
        }
        assert [each["id"] for each in rest] == [7, 8, 9]
        future = SystemClock().now().replace(year=2999)
        await store.write(lambda tx: tx.drop_live(made_before=future, most=2))
        missed, *rest = await replay(7)
        assert (missed["reason"], missed["after"], missed["before"]) == ("expired", 7, 9)
        assert [each["id"] for each in rest] == [9]
        assert [each["id"] for each in await replay(8)] == [9]
        assert await replay(9) == []
        (missed,) = await replay(10)
        assert (missed["reason"], missed["before"]) == ("unknown", 10)

    with_hub(work)


def test_a_client_of_another_database_gets_what_comes() -> None:
    async def work(hub: LiveHub, store: Halting) -> None:
        async with hub.subscribe("demo", PROMPT, 1_000) as one:
            await add(store, "灯")
            _, missed, said = await take(one, 3)
            assert (missed["reason"], said) == ("unknown", "灯")

    with_hub(work)


def test_who_does_not_take_is_dropped_and_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_WAITING", 5)

    async def work(hub: LiveHub, store: Halting) -> None:
        async with hub.subscribe("demo", PROMPT, None) as slow:
            async with hub.subscribe("demo", PROMPT, None) as quick:
                assert (await take(quick, 1))[0]["type"] == "ready"
                for number in range(20):
                    await add(store, str(number))
                    assert await take(quick, 1) == [str(number)]
            assert not slow._waiting
            with pytest.raises(SlowConsumer):
                await slow.take()
        assert hub.counts.slow == 1

    with_hub(work)


def test_while_the_database_is_away_the_newest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MAX_WAITING", 4)

    async def work(hub: LiveHub, store: Halting) -> None:
        async with hub.subscribe("demo", PROMPT, None) as one:
            await take(one, 1)
            store.is_away = True
            for number in range(9):
                publish(hub, str(number))
                await asyncio.sleep(0.002)
            assert len(hub._waiting) <= 4
            with pytest.raises(StorageUnavailableError):
                await hub.flush()
            with pytest.raises(StorageUnavailableError):
                async with hub.subscribe("demo", PROMPT, 0):
                    raise AssertionError
            store.is_away = False
            missed, *said = await take(one, 5)
            assert (missed["type"], missed["reason"], missed["count"]) == ("missed", "overflow", 5)
            assert missed["id"] == 1
            assert said == list("5678")
        assert (hub.counts.published, hub.counts.lost) == (4, 5)

    with_hub(work)


def test_who_was_cut_off_from_a_database_that_went_on_is_told() -> None:
    async def work(hub: LiveHub, store: Halting) -> None:
        await add(store, "1")
        async with hub.subscribe("demo", PROMPT, None) as one:
            await take(one, 1)
            store.is_away = True
            away = MemoryStore()  # the same rows, reached in another way
            away._state, away._migrated = store._state, True
            await add(away, "2", "3")
            await away.write(lambda tx: tx.drop_live(made_before=SystemClock().now(), most=1))
            store._state, store.is_away = away._state, False
            await add(store, "4")
            missed, *said = await take(one, 3)
            assert (missed["reason"], missed["after"], missed["before"]) == ("expired", 1, 3)
            assert said == ["3", "4"]

    with_hub(work)


def test_an_event_that_can_not_be_made_stops_no_other() -> None:
    async def work(hub: LiveHub, _store: Halting) -> None:
        contexts: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: contexts.append(context)
        )
        async with hub.subscribe("demo", PROMPT, None) as one:
            await take(one, 1)
            hub.publish(
                "demo",
                Occasion(prompt_id=PROMPT, source="select"),
                lambda _: 1 / 0,  # type: ignore[arg-type,return-value]  # it fails
            )
            publish(hub, "next")
            assert await take(one, 1) == ["next"]
        assert isinstance(contexts[0]["exception"], ZeroDivisionError)

    with_hub(work)


def test_old_events_are_dropped_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "_SECONDS_BETWEEN_DROPS", 0.0)
    monkeypatch.setattr(hubs, "MAX_KEPT", 3)

    async def work(hub: LiveHub, store: Halting) -> None:
        for number in range(9):
            publish(hub, str(number))
            await hub.flush()
        assert await store.read(lambda tx: tx.live_ids()) == (7, 9)

    with_hub(work)


def test_what_is_being_written_when_the_service_stops_is_written_once() -> None:
    async def work() -> None:
        store = Slow()
        await store.migrate()
        hub = LiveHub(store, SystemClock(), keep_s=600)
        for number in range(30):
            publish(hub, str(number))
        for _ in range(3):  # it makes some, is cancelled, and makes them again
            await cancelled(hub, lambda count: count == 11)
        await cancelled(hub, lambda _: store.is_writing)
        asyncio.get_running_loop().call_later(0.02, store.goes_on.set)
        await hub.flush()
        found = await store.read(lambda tx: tx.list_live(after=0, limit=99))
        assert [json.loads(each.body)["says"] for each in found] == [str(n) for n in range(30)]

    async def cancelled(hub: LiveHub, is_time: Callable[[int], bool]) -> None:
        flushing = asyncio.create_task(hub.flush())
        for count in itertools.count():
            await asyncio.sleep(0)
            if is_time(count):
                break
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 10))


def test_what_is_replayed_or_waits_is_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MAX_REPLAYED_BYTES", 300)
    monkeypatch.setattr(subscriptions, "MAX_WAITING_CHARS", 500)

    async def work(hub: LiveHub, store: Halting) -> None:
        await add(store, *(f"{number}{'x' * 80}" for number in range(9)))
        async with hub.subscribe("demo", PROMPT, 0) as one:
            _, missed, *said = [json.loads(frame.text) for frame in await one.take()]
            assert (missed["reason"], missed["before"]) == ("too_many", said[0]["id"])
            assert [each["says"][0] for each in said] == list("678")
            await add(store, "x" * 600)
            with pytest.raises(SlowConsumer):
                await one.take()

    with_hub(work)


def test_frames_go_out_in_pieces_of_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "_PIECE_CHARS", 5)
    frames = [Frame("selection", number, "x" * number) for number in (1, 3, 2, 9, 1, 4)]
    pieces = [[frame.id for frame in piece] for piece in subscriptions.in_pieces(frames)]
    assert pieces == [[1, 3], [2], [9], [1, 4]]
    assert list(subscriptions.in_pieces([])) == []
