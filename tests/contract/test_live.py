"""Events of the live channel: their order, who hears of them, and how they go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from contract.harness import Harness, execute, opened
from contract.rows import at
from lorewell.app.ports import Store, Transaction
from lorewell.app.rows import LiveEvent, LiveMost
from lorewell.store import open_store
from lorewell.store.postgres import PostgresStore


def event(
    text: str = "{}", prompt_id: str = "雾", tenant_id: str = "a", when: int = 0
) -> LiveEvent:
    return LiveEvent(tenant_id=tenant_id, prompt_id=prompt_id, made_at=at(when), body=text.encode())


def texts(events: Any) -> list[str]:
    return [each.body.decode() for each in events]


def test_events_are_numbered_in_their_order(db: Harness) -> None:
    assert db.read(lambda tx: tx.live_ids()) == (0, 0)
    given = [event("1 灯"), event("2", "港"), event("3", tenant_id="b")]
    last = db.write(lambda tx: tx.add_live(given))
    found = db.read(lambda tx: tx.list_live(after=0, limit=9))
    assert [replace(each, id=0) for each in found] == given
    assert [each.id for each in found] == sorted({each.id for each in found})
    assert found[-1].id == last
    assert db.read(lambda tx: tx.live_ids()) == (found[0].id, last)
    assert texts(db.read(lambda tx: tx.list_live(after=found[0].id, limit=1))) == ["2"]
    assert db.read(lambda tx: tx.list_live(after=last, limit=9)) == []


def test_of_a_prompt_the_newest_are_read(db: Harness) -> None:
    for number in range(6):
        last = db.write(
            lambda tx, number=number: tx.add_live([event(str(number)), event("x", "p")])
        )
    db.write(lambda tx: tx.add_live([event("other", tenant_id="b")]))

    def read(tx: Transaction, after: int, until: int, limit: int, size: int = 99) -> list[str]:
        most = LiveMost(limit, size)
        found, are_all = tx.list_live_of("a", "雾", after=after, until=until, most=most)
        return [*texts(found), *([] if are_all else ["…"])]

    first = db.read(lambda tx: tx.list_live(after=0, limit=1))[0].id
    assert db.read(lambda tx: read(tx, 0, last, 9)) == list("012345")
    assert db.read(lambda tx: read(tx, 0, last, 6)) == list("012345")
    assert db.read(lambda tx: read(tx, 0, last, 2)) == ["4", "5", "…"]
    assert db.read(lambda tx: read(tx, 0, last, 9, 3)) == ["2", "3", "4", "5", "…"]
    assert db.read(lambda tx: read(tx, 0, last, 9, 0)) == ["5", "…"]
    assert db.read(lambda tx: read(tx, last, last, 9)) == []
    assert db.read(lambda tx: read(tx, first, last - 2, 9)) == list("1234")


def test_old_events_go_but_never_the_newest(db: Harness) -> None:
    db.write(lambda tx: tx.add_live([event(str(when), when=when) for when in range(10)]))
    assert db.write(lambda tx: tx.drop_live(made_before=at(3), most=1_000)) == 3
    assert db.write(lambda tx: tx.drop_live(made_before=at(3), most=4)) == 3
    left = db.read(lambda tx: tx.list_live(after=0, limit=99))
    assert texts(left) == list("6789")
    assert db.write(lambda tx: tx.drop_live(made_before=at(99), most=1)) == 3
    assert db.read(lambda tx: tx.live_ids()) == (left[-1].id, left[-1].id)
    # So numbers go on, and are never given twice.
    assert db.write(lambda tx: tx.add_live([event()])) > left[-1].id


def test_who_has_seen_one_misses_no_smaller_one(url: str) -> None:
    """Many writers at once, and a reader that follows by id."""
    stores = [open_store(url) for _ in range(3)]

    async def write(store: Store, name: int) -> None:
        for number in range(12):
            given = [event(f"{name}.{number}.{each}") for each in range(2)]
            await store.write(lambda tx, given=given: tx.add_live(given))

    async def follow(store: Store, seen: list[str]) -> None:
        last = 0
        while len(seen) < 72:
            found = await store.read(lambda tx: tx.list_live(after=last, limit=7))  # noqa: B023
            seen += texts(found)
            last = found[-1].id if found else last

    async def work() -> list[str]:
        seen: list[str] = []
        writing = (write(store, name) for name, store in enumerate(stores))
        async with asyncio.timeout(20):
            await asyncio.gather(follow(stores[0], seen), *writing)
        return seen

    with opened(stores[0]) as first, opened(stores[1]), opened(stores[2]):
        seen = first.run(work())
    assert len(seen) == len(set(seen)) == 72
    for name in range(3):
        own = [each for each in seen if each.startswith(f"{name}.")]
        assert own == [f"{name}.{number}.{each}" for number in range(12) for each in range(2)]


async def hears(store: Store, writer: Store, *, within: float = 5) -> bool:
    """Return whether a store hears of what another one adds."""
    heard = asyncio.Event()
    listening = asyncio.create_task(store.hear(heard.set))
    await asyncio.sleep(0.3)
    heard.clear()
    await writer.write(lambda tx: tx.add_live([event()]))
    try:
        async with asyncio.timeout(within):
            await heard.wait()
    except TimeoutError:
        return False
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    return True


def test_other_processes_are_heard(url: str) -> None:
    store, writer = open_store(url), open_store(url)
    with opened(store) as harness, opened(writer):
        assert harness.run(hears(store, writer))
        assert harness.run(hears(writer, writer))


def test_a_connection_that_is_cut_listens_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorewell.store.postgres._HEAR_PAUSE_SECONDS", 0.05)
    store = open_store(postgres_url)
    assert isinstance(store, PostgresStore)

    async def work() -> None:
        heard = asyncio.Event()
        listening = asyncio.create_task(store.hear(heard.set))
        for _ in range(3):
            async with asyncio.timeout(5):
                await heard.wait()
            await asyncio.sleep(0.1)
            heard.clear()
            await store.write(lambda tx: tx.add_live([event()]))
            async with asyncio.timeout(5):
                await heard.wait()
            heard.clear()
            await asyncio.to_thread(
                execute,
                postgres_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1'",
            )
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    with opened(store) as harness:
        harness.run(work())


def test_a_database_that_is_away_is_waited_for() -> None:
    store = open_store("postgresql://nobody@127.0.0.1:9/none")

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await store.hear(lambda: None)
        await store.close()

    asyncio.run(work())
