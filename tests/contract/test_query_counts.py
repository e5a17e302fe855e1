"""How many statements the hot paths take; one more is a round trip more for everybody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from contract.harness import Harness, opened
from contract.rows import START, add_book, binding, digest, kept, revision, uuid
from lorewell.app.bindings import find_bound
from lorewell.app.ports import Transaction
from lorewell.app.rows import StateMark, StoredBindings
from lorewell.store import open_store
from lorewell.store.postgres import PostgresStore
from lorewell.store.sqlite import SqliteStore


@pytest.fixture
def db(url: str) -> Iterator[Harness]:
    with opened(open_store(url)) as harness:
        harness.write(add_book(1))
        harness.write(add_book(2))
        bound = StoredBindings(policy="auto", bindings=(binding(1), binding(2)))
        harness.write(lambda tx: tx.put_bindings("a", "p", bound))
        yield harness


@contextmanager
def counted(db: Harness) -> Iterator[list[str]]:
    """Yield the list to which statements are added as they are sent, BEGIN left out."""
    store = db.store
    if isinstance(store, PostgresStore):
        engines = [store._engine.sync_engine]
    else:
        assert isinstance(store, SqliteStore)
        engines = [store._reader, store._writer]
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield sent
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


def select_path(tx: Transaction) -> None:
    assert tx.find_head("a", uuid(1))
    assert tx.find_revision("a", uuid(1), 1)


def get_content(tx: Transaction) -> None:
    tx.get_content("a", digest(b"{}"))


def resolve(tx: Transaction) -> None:
    assert tx.find_bindings("a", "p")
    assert tx.find_heads("a", [uuid(1), uuid(2)])


def list_page(tx: Transaction) -> None:
    assert tx.list_heads("a", limit=9, after=None, name_contains="o", include_deleted=False)
    assert tx.list_revisions("a", uuid(1), limit=9, before=None)


def turn(tx: Transaction) -> None:
    """Set and bindings, heads, each revision, and which states there are of the conversation."""
    rows = find_bound(tx, "a", "p").rows
    assert len(rows) == 2
    assert tx.list_marks("a", "c") == []


@pytest.mark.parametrize(
    ("work", "count"),
    [(select_path, 2), (get_content, 1), (resolve, 3), (list_page, 2), (turn, 6)],
)
def test_reads(db: Harness, work: Callable[[Transaction], None], count: int) -> None:
    with counted(db) as sent:
        db.read(work)
    assert len(sent) == count, sent


def publish(tx: Transaction) -> None:
    """Head, revision with its content, which is new, and head again."""
    assert tx.find_head("a", uuid(1), lock=True)
    tx.insert_revision(revision(1, 2, content=b"new"), b"new")
    tx.advance_book("a", uuid(1), revision=2, name="n", updated_at=revision().created_at)


def publish_again(tx: Transaction) -> None:
    tx.insert_revision(revision(1, 2), b"{}")


def once(tx: Transaction) -> None:
    assert tx.claim("a", "key", "h") is None
    tx.settle("a", "key", status=200, response=b"")


def bind(tx: Transaction) -> None:
    tx.put_bindings("a", "p", StoredBindings(policy="auto", bindings=(binding(2), binding(1))))


def keep(tx: Transaction) -> None:
    tx.keep_request(kept())


def keep_state(tx: Transaction) -> None:
    """The conversation, the state, and what is too old."""
    mark = StateMark(messages_hash="h", message_count=1, kept_at=START)
    tx.keep_state("a", "c", mark, b"{}", most=9)


@pytest.mark.parametrize(
    ("work", "count"),
    [(publish, 5), (publish_again, 2), (once, 2), (bind, 3), (keep, 1), (keep_state, 3)],
)
def test_writes(db: Harness, work: Callable[[Transaction], None], count: int) -> None:
    with counted(db) as sent:
        db.write(work)
    assert len(sent) == count, sent
