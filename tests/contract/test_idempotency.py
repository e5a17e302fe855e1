"""Keys of idempotent requests: one runs, its twins get the same answer."""

import threading
import time
from collections.abc import Callable

import pytest

from contract.harness import Harness, opened
from contract.rows import add_book, head, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import StoredResult
from lorewell.errors import LorewellError
from lorewell.store import open_store

DONE = StoredResult(request_hash="h", status=201, response=b'{"books":[]}\x00')


def run_once(number: int) -> Callable[[Transaction], StoredResult | None]:
    """Return the work of a request that adds a book unless its key is known."""

    def work(tx: Transaction) -> StoredResult | None:
        remembered = tx.claim("a", "key", "h")
        if remembered is None:
            add_book(number)(tx)
            tx.settle("a", "key", status=DONE.status, response=DONE.response)
        return remembered

    return work


def test_key_is_fresh_once(db: Harness) -> None:
    assert db.write(run_once(1)) is None
    assert db.write(run_once(2)) == DONE
    assert db.write(lambda tx: tx.claim("a", "key", "another hash")) == DONE
    assert db.read(lambda tx: tx.find_head("a", uuid(2))) is None


def test_failed_work_leaves_no_key(db: Harness) -> None:
    class OwnError(Exception):
        pass

    def fail(tx: Transaction) -> None:
        run_once(1)(tx)
        raise OwnError

    with pytest.raises(OwnError):
        db.write(fail)
    assert db.read(lambda tx: tx.find_head("a", uuid(1))) is None
    assert db.write(run_once(1)) is None
    assert db.write(run_once(2)) == DONE


def test_of_parallel_twins_one_runs(db: Harness) -> None:
    results = db.all(*(db.store.write(run_once(number)) for number in range(50)))
    assert sorted(results, key=lambda result: result is None) == [DONE] * 49 + [None]
    page = db.read(
        lambda tx: tx.list_heads(
            "a", limit=99, after=None, name_contains=None, include_deleted=True
        )
    )
    assert [each.book_id for each in page] == [uuid(results.index(None))]


@pytest.mark.parametrize("first_fails", [True, False])
def test_twin_waits_for_the_end_of_the_first(url: str, *, first_fails: bool) -> None:
    """It takes over if the first one failed, else it sees what the first one answered."""
    seen: list[StoredResult | None] = []
    order: list[str] = []

    def twin() -> None:
        with opened(open_store(url)) as other:
            seen.append(other.write(run_once(2)))
            order.append("twin")

    thread = threading.Thread(target=twin)

    def first(tx: Transaction) -> None:
        run_once(1)(tx)
        thread.start()
        time.sleep(0.7)  # time enough for the twin to come as far as it gets
        order.append("first")
        if first_fails:
            raise LookupError

    with opened(open_store(url)) as db:
        try:
            db.write(first)
        except LookupError:
            assert first_fails
        thread.join()
        assert order == ["first", "twin"]
        assert seen == [None if first_fails else DONE]
        found = db.read(lambda tx: tx.find_heads("a", [uuid(1), uuid(2)]))
        assert list(found.values()) == [head(2 if first_fails else 1)]


def test_key_that_stands_for_nothing_is_not_stored(db: Harness) -> None:
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.claim("a", "key", "h"))
    assert db.write(run_once(1)) is None


def test_only_a_claimed_key_can_be_settled(db: Harness) -> None:
    def twice(tx: Transaction) -> None:
        tx.claim("a", "key", "h")
        tx.claim("a", "key", "h")

    with pytest.raises(LorewellError):
        db.write(twice)
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.settle("a", "key", status=200, response=b""))
    db.write(run_once(1))
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.settle("a", "key", status=200, response=b"changed"))
    assert db.write(run_once(2)) == DONE
