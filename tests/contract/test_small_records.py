"""Files, API keys and kept requests."""

import pytest

from contract.harness import Harness
from contract.rows import add_book, at, head, kept, key_row, uuid
from lorewell.app.ports import Transaction
from lorewell.errors import LorewellError


def test_file_leads_to_the_latest_book_that_it_made(db: Harness) -> None:
    db.write(add_book(1))
    db.write(add_book(2))
    assert db.read(lambda tx: tx.find_file("a", "f" * 64)) is None
    db.write(lambda tx: tx.put_file("a", "f" * 64, uuid(1)))
    db.write(lambda tx: tx.put_file("a", "e" * 64, uuid(1)))
    db.write(lambda tx: tx.put_file("a", "f" * 64, uuid(2)))
    assert db.read(lambda tx: tx.find_file("a", "f" * 64)) == uuid(2)
    assert db.read(lambda tx: tx.find_file("a", "e" * 64)) == uuid(1)


def test_file_is_taken_once(db: Harness) -> None:
    def make(tx: Transaction) -> str:
        known = tx.claim_file("a", "f" * 64)
        if known is not None:
            return known
        add_book(len(made) + 1)(tx)
        tx.put_file("a", "f" * 64, uuid(len(made) + 1))
        made.append(uuid(len(made) + 1))
        return made[-1]

    made: list[str] = []
    assert db.write(make) == uuid(1)
    assert db.write(make) == uuid(1)
    assert made == [uuid(1)]


def test_file_needs_its_book(db: Harness) -> None:
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.put_file("a", "f" * 64, uuid(1)))


def test_key_comes_back_as_it_went_in(db: Harness) -> None:
    row = key_row(name="雾'\"\\", revoked_at=at(9))
    db.write(lambda tx: tx.insert_key(row))
    assert db.read(lambda tx: tx.find_key("k1")) == row
    assert db.read(lambda tx: tx.find_key("k2")) is None
    with pytest.raises(LorewellError):
        db.write(lambda tx: tx.insert_key(key_row(name="again")))


def test_keys_are_listed_oldest_first(db: Harness) -> None:
    rows = [key_row("k3"), key_row("k1", created_at=at(1)), key_row("K2", created_at=at(1))]
    for row in rows:
        db.write(lambda tx, row=row: tx.insert_key(row))
    assert db.read(lambda tx: tx.list_keys()) == [rows[0], rows[2], rows[1]]


def test_key_is_revoked_once(db: Harness) -> None:
    db.write(lambda tx: tx.insert_key(key_row("k1")))
    db.write(lambda tx: tx.insert_key(key_row("k2")))
    for time in (at(5), at(6)):
        db.write(lambda tx, time=time: tx.revoke_key("k1", time))
    db.write(lambda tx: tx.revoke_key("unknown", at(7)))
    rows = db.read(lambda tx: tx.list_keys())
    assert rows == [key_row("k1", revoked_at=at(5)), key_row("k2")]


def test_request_is_kept_and_replaced(db: Harness) -> None:
    first = kept(body=b"\x00\xff" * 1000)
    db.write(lambda tx: tx.keep_request(first))
    assert db.read(lambda tx: tx.find_request("a", "s1")) == first
    second = kept(body=b"", expires_at=at(3))
    db.write(lambda tx: tx.keep_request(second))
    assert db.read(lambda tx: tx.find_request("a", "s1")) == second
    assert db.read(lambda tx: tx.find_request("a", "s2")) is None


def test_expired_requests_are_dropped_for_all_tenants(db: Harness) -> None:
    rows = [
        kept("s1", expires_at=at(-1)),
        kept("s2", "b", expires_at=at(0)),
        kept("s3", expires_at=at(1)),
    ]
    for row in rows:
        db.write(lambda tx, row=row: tx.keep_request(row))
    assert db.write(lambda tx: tx.drop_requests(at(0))) == 2
    assert db.write(lambda tx: tx.drop_requests(at(0))) == 0
    assert db.read(lambda tx: tx.find_request("a", "s1")) is None
    assert db.read(lambda tx: tx.find_request("a", "s3")) == rows[2]


HOSTILE = [
    "' OR 1=1; --",
    "$1 %s :tenant ? {0} \\",
    "\u202e\u0301\ufeff\U0010ffff\ue000",
    "a" * 5000,
    "\x01\x1f\x7f\r\n",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_only_text(db: Harness, text: str) -> None:
    db.write(lambda tx: tx.insert_book(head(1, text, name=text)))
    db.write(lambda tx: tx.insert_book(head(2, "a")))
    assert db.read(lambda tx: tx.find_head(text, uuid(1))) == head(1, text, name=text)
    assert db.read(lambda tx: tx.find_head("a", text)) is None
    request = kept(text, text)
    db.write(lambda tx: tx.keep_request(request))
    assert db.read(lambda tx: tx.find_request(text, text)) == request
    assert (
        db.write(
            lambda tx: tx.claim(text, text, text) or tx.settle(text, text, status=1, response=b"")
        )
        is None
    )
    assert sorted(db.read(lambda tx: tx.list_tenants())) == sorted(["a", text])
