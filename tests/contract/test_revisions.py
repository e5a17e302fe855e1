"""Revisions and their contents: same bytes out, stored once."""

import random

import pytest

from contract.harness import Harness
from contract.rows import add_book, at, digest, revision, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.errors import LorewellError
from lorewell.store.statements import LARGEST_INTEGER


def add(db: Harness, row: RevisionRow, content: bytes) -> None:
    db.write(lambda tx: tx.insert_revision(row, content))


def test_revision_comes_back_as_it_went_in(db: Harness) -> None:
    content = '{"name":"雾隐渡","z":1,"a":[1.0,1e400,"\\u0000"]}'.encode()
    row = revision(
        revision=2,
        content=content,
        name="Б🏮",
        entry_count=5000,
        origin="replica",
        import_report=b"\x00\xff not even JSON",
        created_at=at(77),
    )
    db.write(add_book(1))
    add(db, row, content)
    assert db.read(lambda tx: tx.find_revision("a", uuid(1), 2)) == row
    assert db.read(lambda tx: tx.get_content("a", row.content_hash)) == content


def test_absent_revisions_are_not_found(db: Harness) -> None:
    db.write(add_book(1))
    for number in (0, 2, -1, LARGEST_INTEGER, LARGEST_INTEGER + 1, 10**30):
        asked = number
        assert db.read(lambda tx, asked=asked: tx.find_revision("a", uuid(1), asked)) is None
    assert db.read(lambda tx: tx.find_revision("a", uuid(2), 1)) is None


def test_absent_content_is_an_error(db: Harness) -> None:
    with pytest.raises(LorewellError):
        db.read(lambda tx: tx.get_content("a", digest(b"?")))


def test_revision_is_written_once_only(db: Harness) -> None:
    db.write(add_book(1))
    with pytest.raises(LorewellError):
        add(db, revision(content=b"other"), b"other")
    assert db.read(lambda tx: tx.find_revision("a", uuid(1), 1)) == revision()
    with pytest.raises(LorewellError):  # its content went with it
        db.read(lambda tx: tx.get_content("a", digest(b"other")))


def test_same_content_is_stored_once(db: Harness) -> None:
    """What is there already is kept, not even written again."""
    db.write(add_book(1))
    db.write(add_book(2))
    add(db, revision(revision=2), b"not what the hash says")
    add(db, revision(number=2, revision=2), b"nor this")
    assert db.read(lambda tx: tx.get_content("a", digest(b"{}"))) == b"{}"
    db.write(add_book(1, tenant_id="b", content=b"[]"))
    assert db.read(lambda tx: tx.get_content("b", digest(b"[]"))) == b"[]"


def test_revisions_are_listed_newest_first(db: Harness) -> None:
    db.write(add_book(1))
    db.write(add_book(2))

    def fill(tx: Transaction) -> None:
        for number in range(2, 13):
            tx.insert_revision(revision(revision=number), b"{}")

    db.write(fill)

    def numbers(limit: int, before: int | None) -> list[int]:
        rows = db.read(lambda tx: tx.list_revisions("a", uuid(1), limit=limit, before=before))
        return [row.revision for row in rows]

    assert numbers(5, None) == [12, 11, 10, 9, 8]
    assert numbers(5, 8) == [7, 6, 5, 4, 3]
    assert numbers(5, 3) == [2, 1]
    assert numbers(5, 1) == []
    assert numbers(100, 10**30) == list(range(12, 0, -1))


@pytest.mark.parametrize("size", [0, 1, 32_768, 1_000_000])
def test_content_of_any_size_keeps_its_bytes(db: Harness, size: int) -> None:
    content = random.Random(size).randbytes(size)
    db.write(add_book(1, content=content))
    assert db.read(lambda tx: tx.get_content("a", digest(content))) == content


def test_huge_content_keeps_its_bytes(db: Harness) -> None:
    words = random.Random(1).choices(["Lantern", "Reach", "雾隐渡", "%_\\", "🏮"], k=3_100_000)
    content = " ".join(words).encode()
    assert len(content) > 20_000_000
    db.write(add_book(1, content=content))
    assert db.read(lambda tx: tx.get_content("a", digest(content))) == content
