"""Conversations: the states after their turns, and how many of them stay."""

from __future__ import annotations

import pytest

from contract.harness import Harness
from contract.rows import START, at
from lorewell.app.rows import ConversationRow, PairsChange, StateMark
from lorewell.errors import LorewellError

STATE = '{"sticky":{"雾.0":{"end":5}}}'.encode()


def mark(messages: str, count: int = 1, microseconds: int = 0) -> StateMark:
    return StateMark(messages_hash=messages, message_count=count, kept_at=at(microseconds))


def keep(
    db: Harness,
    kept: StateMark,
    state: bytes = STATE,
    *,
    name: tuple[str, str] = ("a", "场景 1"),
    most: int = 9,
) -> None:
    db.write(lambda tx: tx.keep_state(*name, kept, state, most=most))


def test_state_comes_back_as_it_went_in(db: Harness) -> None:
    keep(db, mark("h1"), STATE)
    assert db.read(lambda tx: tx.get_state("a", "场景 1", "h1")) == STATE
    assert db.read(lambda tx: tx.list_states("a", "场景 1")) == [(mark("h1"), STATE)]
    with pytest.raises(LorewellError):
        db.read(lambda tx: tx.get_state("a", "场景 1", "h2"))


def test_state_after_the_same_messages_is_replaced(db: Harness) -> None:
    keep(db, mark("h1", 1), b"first")
    keep(db, mark("h1", 1, 7), b"")
    assert db.read(lambda tx: tx.list_states("a", "场景 1")) == [(mark("h1", 1, 7), b"")]
    row = db.read(lambda tx: tx.find_conversation("a", "场景 1"))
    assert row == ConversationRow(
        tenant_id="a",
        conversation_id="场景 1",
        state_count=1,
        created_at=START,
        updated_at=at(7),
    )


def test_marks_are_newest_first_then_longest(db: Harness) -> None:
    marks = [mark("h2", 2, 5), mark("h3", 3, 5), mark("h9", 9, 1), mark("h4", 3, 5)]
    for each in marks:
        keep(db, each)
    listed = db.read(lambda tx: tx.list_marks("a", "场景 1"))
    assert [each.messages_hash for each in listed] == ["h3", "h4", "h2", "h9"]


def test_of_too_many_states_the_oldest_go(db: Harness) -> None:
    keep(db, mark("other", 1, -9), name=("a", "other"))
    for number in range(6):
        keep(db, mark(f"h{number}", number, number), most=3)
    listed = db.read(lambda tx: tx.list_marks("a", "场景 1"))
    assert [each.messages_hash for each in listed] == ["h5", "h4", "h3"]
    keep(db, mark("h3", 3, 9), most=1)
    assert db.read(lambda tx: tx.list_marks("a", "场景 1")) == [mark("h3", 3, 9)]
    assert db.read(lambda tx: tx.list_marks("a", "other")) == [mark("other", 1, -9)]


def test_conversations_are_listed_last_used_first(db: Harness) -> None:
    for name, microseconds in (("c", 1), ("b", 3), ("a", 1), ("雾", 2)):
        keep(db, mark("h", 1, microseconds), name=("a", name))
    keep(db, mark("h"), name=("b", "hidden"))
    listed = db.read(lambda tx: tx.list_conversations("a", limit=9, after=None))
    assert [row.conversation_id for row in listed] == ["b", "雾", "a", "c"]
    seen: list[str] = []
    after = None
    while page := db.read(lambda tx, after=after: tx.list_conversations("a", limit=1, after=after)):
        seen += [row.conversation_id for row in page]
        after = (page[-1].updated_at, page[-1].conversation_id)
    assert seen == ["b", "雾", "a", "c"]


def test_deleted_conversation_is_forgotten_whole(db: Harness) -> None:
    for name in (("a", "场景 1"), ("a", "场景 2"), ("b", "场景 1")):
        keep(db, mark("h1"), name=name)
        keep(db, mark("h2"), name=name)
    assert db.write(lambda tx: tx.delete_conversation("a", "场景 1"))
    assert not db.write(lambda tx: tx.delete_conversation("a", "场景 1"))
    assert db.read(lambda tx: tx.find_conversation("a", "场景 1")) is None
    assert db.read(lambda tx: tx.list_marks("a", "场景 1")) == []
    assert len(db.read(lambda tx: tx.list_marks("a", "场景 2"))) == 2
    assert len(db.read(lambda tx: tx.list_marks("b", "场景 1"))) == 2
    keep(db, mark("h3"))
    assert db.read(lambda tx: tx.list_marks("a", "场景 1")) == [mark("h3")]


def test_turns_at_the_same_time_are_all_kept(db: Harness) -> None:
    def turn(number: int) -> object:
        kept = mark(f"h{number}", number, number)
        return db.store.write(lambda tx: tx.keep_state("a", "c", kept, STATE, most=5))

    results = db.all(*(turn(number) for number in range(8)))  # type: ignore[arg-type]  # coroutines
    assert results == [None] * 8
    assert len(db.read(lambda tx: tx.list_marks("a", "c"))) == 5


def test_lines_are_replaced_and_deleted_with_their_conversation(db: Harness) -> None:
    name = ("a", "场景 1")
    assert db.read(lambda tx: tx.find_lines(*name)) is None
    keep(db, mark("h1"))
    for body in (b"\x00first", b"", b"\xffthen"):
        db.write(lambda tx, body=body: tx.put_lines(*name, body))
        assert db.write(lambda tx: tx.find_lines(*name, lock=True)) == body
    assert db.read(lambda tx: tx.find_lines("b", "场景 1")) is None
    assert db.write(lambda tx: tx.delete_conversation(*name))
    assert db.read(lambda tx: tx.find_lines(*name)) is None


def test_pairs_find_the_conversations_that_have_them(db: Harness) -> None:
    def put(name: str, added: list[bytes], removed: list[bytes] | None = None) -> None:
        db.write(lambda tx: tx.put_pairs("a", name, PairsChange(added, removed or [])))

    def find(*pairs: bytes, tenant: str = "a") -> list[tuple[bytes, str]]:
        return list(db.read(lambda tx: tx.find_paired(tenant, pairs)))

    for name in ("雾", "c"):
        keep(db, mark("h1"), name=("a", name))
    put("雾", [b"\x00", b"\xff"])
    put("c", [b"\xff", b"3"])
    put("c", [b"3"])  # again
    assert find(b"\x00", b"\xff") == [(b"\xff", "c"), (b"\x00", "雾"), (b"\xff", "雾")]
    assert find(b"\xff", tenant="b") == find() == find(b"none") == []
    put("雾", [b"4"], [b"\xff", b"3"])
    assert find(b"\xff", b"3", b"4") == [(b"3", "c"), (b"\xff", "c"), (b"4", "雾")]
    db.write(lambda tx: tx.delete_conversation("a", "c"))
    assert find(b"\xff", b"3") == []


def test_a_pair_of_many_conversations_tells_no_more_of_them_apart(db: Harness) -> None:
    for number in range(10):
        name = f"c{number}"
        keep(db, mark("h1"), name=("a", name))
        own = str(number).encode()
        db.write(
            lambda tx, name=name, own=own: tx.put_pairs("a", name, PairsChange([b"p", own], []))
        )
    assert len(db.read(lambda tx: tx.find_paired("a", [b"p"]))) == 8
    assert len(db.read(lambda tx: tx.find_paired("a", [b"8", b"9"]))) == 2


def test_a_tenant_keeps_its_first_secret(db: Harness) -> None:
    assert db.read(lambda tx: tx.find_secret("a")) is None
    assert db.write(lambda tx: tx.add_secret("a", b"one")) == b"one"
    assert db.write(lambda tx: tx.add_secret("a", b"two")) == b"one"
    assert db.write(lambda tx: tx.add_secret("b", b"two")) == b"two"
    assert db.read(lambda tx: tx.find_secret("a")) == b"one"


def test_secrets_made_at_the_same_time_are_one(db: Harness) -> None:
    def add(number: int) -> object:
        return db.store.write(lambda tx: tx.add_secret("a", b"%d" % number))

    results = db.all(*(add(number) for number in range(8)))  # type: ignore[arg-type]  # coroutines
    assert len(set(results)) == 1
