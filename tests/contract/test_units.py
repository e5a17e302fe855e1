"""Units of work: whole, isolated, on time, and nothing is left behind."""

import asyncio
import gc
import threading

import pytest

from contract.harness import Harness, opened
from contract.rows import add_book, at, head, revision, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow
from lorewell.errors import BookNotFoundError, StorageUnavailableError
from lorewell.store import open_store


def publish(expected: int):  # noqa: ANN201
    """Return the work of publishing after the expected revision; it returns whether it did."""

    def work(tx: Transaction) -> bool:
        found = tx.find_head("a", uuid(1), lock=True)
        assert found is not None
        if found.latest_revision != expected:
            return False
        tx.insert_revision(revision(1, expected + 1), b"{}")
        tx.advance_book("a", uuid(1), revision=expected + 1, name="n", updated_at=at(expected))
        return True

    return work


def test_of_parallel_publishers_one_wins(db: Harness) -> None:
    db.write(add_book(1))
    results = db.all(*(db.store.write(publish(1)) for _ in range(50)))
    assert sorted(results, key=bool) == [False] * 49 + [True]
    found = db.read(lambda tx: tx.find_head("a", uuid(1)))
    assert found == head(1, latest_revision=2, name="n", updated_at=at(1))


def test_publishers_of_several_processes_lose_no_revision(url: str) -> None:
    """Each of two stores publishes what follows, whatever the other does meanwhile."""

    def publish_next(tx: Transaction) -> None:
        found = tx.find_head("a", uuid(1), lock=True)
        assert found is not None
        assert publish(found.latest_revision)(tx)

    def publisher() -> None:
        with opened(open_store(url)) as other:
            assert other.all(*(other.store.write(publish_next) for _ in range(25))) == [None] * 25

    with opened(open_store(url)) as db:
        db.write(add_book(1))
        threads = [threading.Thread(target=publisher) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = db.read(lambda tx: tx.find_head("a", uuid(1)))
        assert found is not None
        assert found.latest_revision == 51
        rows = db.read(lambda tx: tx.list_revisions("a", uuid(1), limit=99, before=None))
        assert [row.revision for row in rows] == list(range(51, 0, -1))


def test_read_sees_one_moment(url: str) -> None:
    def write_elsewhere() -> None:
        with opened(open_store(url)) as other:
            other.write(add_book(2))
            other.write(publish(1))

    def look(tx: Transaction) -> tuple[HeadRow | None, HeadRow | None, object, HeadRow | None]:
        before = tx.find_head("a", uuid(1))
        thread = threading.Thread(target=write_elsewhere)
        thread.start()
        thread.join()
        return (
            before,
            tx.find_head("a", uuid(1)),
            tx.find_revision("a", uuid(1), 2),
            tx.find_head("a", uuid(2)),
        )

    with opened(open_store(url)) as db:
        db.write(add_book(1))
        assert db.read(look) == (head(1), head(1), None, None)
        assert db.read(lambda tx: tx.find_revision("a", uuid(1), 2)) == revision(1, 2)


def test_read_sees_every_acknowledged_write(db: Harness) -> None:
    db.write(add_book(1))

    async def go() -> None:
        for number in range(1, 60):
            await db.store.write(publish(number))
            heads = await asyncio.gather(
                *(db.store.read(lambda tx: tx.find_head("a", uuid(1))) for _ in range(4))
            )
            assert [each and each.latest_revision for each in heads] == [number + 1] * 4

    db.run(go())


@pytest.mark.parametrize("error", [BookNotFoundError("?"), OSError("own"), TimeoutError("own")])
def test_error_of_the_work_passes_unchanged(db: Harness, error: Exception) -> None:
    def work(tx: Transaction) -> None:
        tx.insert_book(head(1))
        tx.insert_revision(revision(1), b"{}")
        raise error

    for _ in range(15):  # more often than there are connections
        with pytest.raises(type(error)) as caught:
            db.write(work)
        assert str(caught.value) == str(error)
    assert db.read(lambda tx: tx.find_head("a", uuid(1))) is None
    with pytest.raises(type(error)):
        db.read(lambda _: (_ for _ in ()).throw(error))
    db.write(add_book(1))


def test_read_writes_nothing(db: Harness) -> None:
    with pytest.raises(StorageUnavailableError):
        db.read(add_book(1))
    assert db.read(lambda tx: tx.find_head("a", uuid(1))) is None


def test_cancelled_calls_leave_nothing_behind(db: Harness) -> None:
    db.write(add_book(1))

    async def go() -> None:
        for delay in (0, 0, 0.0005, 0.001, 0.002) * 8:
            calls = [asyncio.create_task(db.store.write(publish(1))) for _ in range(3)]
            calls += [
                asyncio.create_task(db.store.read(lambda tx: tx.find_head("a", uuid(1)) is None))
                for _ in range(3)
            ]
            await asyncio.sleep(delay)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    db.run(go())
    assert len(db.all(*(db.store.write(publish(1)) for _ in range(30)))) == 30
    found = db.read(lambda tx: tx.find_head("a", uuid(1)))
    assert found is not None
    assert found.latest_revision == 2


def test_thousands_of_calls_leak_neither_threads_nor_connections(url: str) -> None:
    before = threading.active_count()
    with opened(open_store(url, readers=3)) as db:
        for _ in range(20):
            db.all(*(db.store.read(lambda tx: tx.list_tenants()) for _ in range(100)))
        db.all(*(db.store.write(lambda tx: tx.list_tenants()) for _ in range(200)))
        assert threading.active_count() <= before + 3 + 1 + 6  # and the loop's own few
    gc.collect()  # whatever was left open would warn here, and a warning is an error
    assert threading.active_count() == before


@pytest.mark.parametrize("delay", [0, 0.001, 0.01])
def test_store_can_be_closed_while_it_works(db: Harness, delay: float) -> None:
    async def go() -> list[object]:
        calls = [
            *(db.store.read(lambda tx: tx.list_tenants()) for _ in range(30)),
            *(db.store.write(lambda tx: tx.list_tenants()) for _ in range(30)),
        ]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(delay)
        await db.store.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = db.run(go())
    assert all(result == [] or isinstance(result, StorageUnavailableError) for result in results)
    gc.collect()  # an open connection would warn


def test_closed_store_says_so(db: Harness) -> None:
    db.run(db.store.close())
    for call in (
        db.store.read(lambda tx: tx.list_tenants()),
        db.store.write(lambda tx: tx.list_tenants()),
    ):
        with pytest.raises(StorageUnavailableError):
            db.run(call)
    assert db.run(db.store.check()) == "storage"
    db.run(db.store.close())


def test_mark_changes_with_every_write(db: Harness) -> None:
    """None says nothing; anything else never stays the same over a commit."""
    marks = []
    for number in range(1, 4):
        db.write(add_book(number))
        marks += [db.store.mark() for _ in range(3)]
    marks_read = [mark for mark in marks if mark is not None]
    assert len(set(marks_read)) == len(marks_read) / 3


def test_mark_tells_of_what_another_store_wrote(url: str) -> None:
    """Two replicas, or two workers, on one database."""
    with opened(open_store(url)) as first, opened(open_store(url)) as second:
        before = second.store.mark()
        assert second.store.mark() == before
        first.write(add_book(1))
        after = second.store.mark()
    assert before is None or after != before
