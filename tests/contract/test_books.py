"""Heads of books: found, listed, searched by name, moved, deleted."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from time import sleep

import pytest

from contract.harness import Harness, opened
from contract.rows import START, add_book, at, head, revision, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow
from lorewell.errors import LorewellError
from lorewell.store import open_store

ALL = {"limit": 100, "after": None, "name_contains": None, "include_deleted": True}


def listed(db: Harness, tenant_id: str | None = "a", **fields: object) -> list[HeadRow]:
    return list(db.read(lambda tx: tx.list_heads(tenant_id, **(ALL | fields))))


def named(db: Harness, text: str) -> list[str]:
    return [each.name for each in listed(db, name_contains=text)]


def test_book_comes_back_as_it_went_in(db: Harness) -> None:
    stored = head(7, name="雾隐渡 Ｌａｎｔｅｒｎ 🏮", created_at=at(-1), deleted_at=at(3))
    db.write(lambda tx: tx.insert_book(stored))
    assert db.read(lambda tx: tx.find_head("a", uuid(7))) == stored
    assert db.write(lambda tx: tx.find_head("a", uuid(7), lock=True)) == stored
    assert db.read(lambda tx: tx.find_head("a", uuid(8))) is None
    assert db.write(lambda tx: tx.find_head("a", uuid(8), lock=True)) is None


@pytest.mark.parametrize(
    "time",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2031, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
def test_times_keep_their_microseconds(db: Harness, time: datetime) -> None:
    db.write(lambda tx: tx.insert_book(head(updated_at=time)))
    found = db.read(lambda tx: tx.find_head("a", uuid(1)))
    assert found is not None
    assert found.updated_at == time
    assert found.updated_at.utcoffset() == timedelta(0) or isinstance(time.tzinfo, timezone)


def test_book_can_be_added_once_only(db: Harness) -> None:
    db.write(add_book(1))
    with pytest.raises(LorewellError) as caught:
        db.write(lambda tx: tx.insert_book(head(1, name="Other")))
    assert caught.value.code == "internal_error"
    assert [each.name for each in listed(db)] == ["Book 1"]


def test_several_heads_are_found_by_id(db: Harness) -> None:
    for number in range(1, 4):
        db.write(add_book(number))
    asked = [uuid(3), uuid(9), uuid(1), uuid(3)]
    found = db.read(lambda tx: tx.find_heads("a", asked))
    assert found == {uuid(1): head(1), uuid(3): head(3)}
    assert db.read(lambda tx: tx.find_heads("a", [])) == {}


def test_head_moves(db: Harness) -> None:
    db.write(add_book(1))
    db.write(lambda tx: tx.advance_book("a", uuid(1), revision=2, name="Straße", updated_at=at(5)))
    moved = head(1, latest_revision=2, name="Straße", updated_at=at(5))
    assert db.read(lambda tx: tx.find_head("a", uuid(1))) == moved
    assert named(db, "STRASSE") == ["Straße"]
    assert named(db, "book") == []


def test_deleted_book_is_shown_with_its_date(db: Harness) -> None:
    db.write(add_book(1))
    db.write(lambda tx: tx.set_deleted("a", uuid(1), deleted_at=at(9), updated_at=at(9)))
    assert listed(db, include_deleted=False) == []
    assert listed(db) == [head(1, deleted_at=at(9), updated_at=at(9))]
    db.write(lambda tx: tx.set_deleted("a", uuid(1), deleted_at=None, updated_at=at(10)))
    assert listed(db, include_deleted=False) == [head(1, updated_at=at(10))]


@pytest.mark.parametrize("change", ["advance", "delete"])
def test_absent_book_can_not_be_changed(db: Harness, change: str) -> None:
    def work(tx: Transaction) -> None:
        if change == "advance":
            tx.advance_book("a", uuid(1), revision=2, name="x", updated_at=START)
        else:
            tx.set_deleted("a", uuid(1), deleted_at=START, updated_at=START)

    with pytest.raises(LorewellError):
        db.write(work)


def test_newest_change_is_listed_first_then_by_id(db: Harness) -> None:
    times = {1: 5, 2: 9, 3: 5, 4: -1}
    for number in (3, 1, 4, 2):
        db.write(add_book(number, updated_at=at(times[number])))
    assert [each.book_id for each in listed(db)] == [uuid(n) for n in (2, 1, 3, 4)]


def test_ids_are_ordered_by_code_point(db: Harness) -> None:
    names = ["a", "B", "b", "A", "-", "ä", "z", "雾", "_", "a-b", "ab", "aB"]
    for tenant_id in names:
        db.write(lambda tx, tenant_id=tenant_id: tx.insert_book(head(1, tenant_id)))
    assert db.read(lambda tx: tx.list_tenants()) == sorted(names)
    assert [each.tenant_id for each in listed(db, None)] == sorted(names)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_pages_are_whole_though_times_are_equal(db: Harness, size: int) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(8):
            for tenant_id in ("c", "a", "b"):
                tx.insert_book(head(number, tenant_id, updated_at=at(number // 4)))

    db.write(fill)
    for tenant_id in (None, "b"):
        seen: list[HeadRow] = []
        after = None
        while page := listed(db, tenant_id, limit=size, after=after):
            assert len(page) <= size
            seen += page
            after = (page[-1].updated_at, page[-1].book_id, page[-1].tenant_id)
        assert seen == listed(db, tenant_id)
        assert len(seen) == (24 if tenant_id is None else 8)


NAMES = [
    "100% Lore",
    "100 Lore",
    "snake_case",
    "snakeXcase",
    "back\\slash",
    "'; DROP TABLE books; --",
    '"quoted" $1 :name ? %(x)s {0}',
    "雾隐渡的守灯人",
    "เมืองแห่งหมอก",
    "Дом Тумана",
    "İstanbul",
    "Straße",
    "Cafe\u0301 Noir",
    "ΌΔΟΣ",
    "👩‍🚀 Raumfahrt",
    "tab\tand\nline\u2028break\ufeff",
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100%", ["100% Lore"]),
        ("%", ["100% Lore", '"quoted" $1 :name ? %(x)s {0}']),
        ("e_c", ["snake_case"]),
        ("_", ["snake_case"]),
        ("\\", ["back\\slash"]),
        ("K\\S", ["back\\slash"]),
        ("'; drop table", ["'; DROP TABLE books; --"]),
        ("$1 :NAME ?", ['"quoted" $1 :name ? %(x)s {0}']),
        ("守灯", ["雾隐渡的守灯人"]),
        ("แห่ง", ["เมืองแห่งหมอก"]),
        ("ТУМАН", ["Дом Тумана"]),
        ("İSTAN", ["İstanbul"]),
        ("strasse", ["Straße"]),
        ("CAFÉ", ["Cafe\u0301 Noir"]),
        ("όδος", ["ΌΔΟΣ"]),
        ("👩‍🚀", ["👩‍🚀 Raumfahrt"]),
        ("\u2028", ["tab\tand\nline\u2028break\ufeff"]),
        ("\t", ["tab\tand\nline\u2028break\ufeff"]),
        ("", NAMES),
        ("nothing", []),
        ("%" * 100_000, []),
    ],
)
def test_names_are_searched_letter_by_letter(db: Harness, text: str, found: list[str]) -> None:
    def fill(tx: Transaction) -> None:
        for number, name in enumerate(NAMES):
            tx.insert_book(head(number, name=name))

    db.write(fill)
    assert sorted(named(db, text)) == sorted(found)
    assert {each.name for each in listed(db)} == set(NAMES)


def test_search_goes_with_paging(db: Harness) -> None:
    for number in range(6):
        db.write(add_book(number, name="Even" if number % 2 == 0 else "Odd"))
    after = (START, uuid(0), "a")
    page = listed(db, name_contains="EVEN", after=after, limit=1)
    assert [each.book_id for each in page] == [uuid(2)]


def test_naive_time_is_refused(db: Harness) -> None:
    if type(db.store).__name__ == "MemoryStore":
        pytest.skip("it keeps what it is given")
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.insert_book(head(updated_at=datetime(2031, 1, 1))))  # noqa: DTZ001


def test_revision_needs_its_book(db: Harness) -> None:
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.insert_revision(revision(1), b"{}"))


def test_books_are_found_by_their_exact_names(db: Harness) -> None:
    def add(tx: Transaction) -> None:
        tx.insert_book(head(1, name="雾渡", updated_at=at(1)))
        tx.insert_book(head(2, name="雾渡", updated_at=at(3)))
        tx.insert_book(head(3, name="雾渡", updated_at=at(9), deleted_at=at(9)))
        tx.insert_book(head(4, name="Harbour"))
        tx.insert_book(replace(head(5, name="雾渡", updated_at=at(9)), tenant_id="b"))

    db.write(add)
    names = ["雾渡", "harbour", "雾", "Harbour", "雾渡"]
    found = db.read(lambda tx: tx.find_heads_named("a", names))
    assert {name: each.book_id for name, each in found.items()} == {
        "雾渡": uuid(2),
        "Harbour": uuid(4),
    }
    assert db.read(lambda tx: tx.find_heads_named("a", [])) == {}


def test_who_holds_a_name_keeps_others_from_adding_a_book_of_it(url: str) -> None:
    looked = threading.Event()

    def add(number: int) -> Callable[[Transaction], bool]:
        def work(tx: Transaction) -> bool:
            tx.hold_name("a", "雾渡")
            is_free = not tx.find_heads_named("a", ["雾渡"])
            looked.set()
            if is_free:
                sleep(0.2)  # the other one has its chance
                tx.insert_book(head(number, name="雾渡"))
            return is_free

        return work

    def beside() -> bool:
        with opened(open_store(url)) as other:
            looked.wait(10)
            return other.write(add(2))

    with opened(open_store(url)) as db, ThreadPoolExecutor(1) as threads:
        second = threads.submit(beside)
        assert db.write(add(1))
        assert not second.result()
