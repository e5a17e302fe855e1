"""Acceptance cases of docs/rules/native.md §16 about recall and the network, in the library.

Number in front, expectation from the case's text.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lorewell import (
    BookCreate,
    Entry,
    SelectRequest,
    SelectResponse,
    VectorScores,
    compile_book,
    select,
)
from lorewell.engine.native.compiled import CompiledBook


def book_of(*entries: Entry) -> CompiledBook:
    return compile_book(BookCreate(name="Harbour", entries=entries))


def ask(book: CompiledBook, query: str, **asked: Any) -> SelectResponse:
    fields = {"books": [book.ref], "query": query, "strategy": "hybrid", **asked}
    return select([book], SelectRequest.model_validate(fields))


def test_49_hybrid_activates_an_entry_whose_secondary_logic_fails() -> None:
    entry = Entry(
        id="lamp", content="A lamp.", keys=["lamp"], secondary_keys=["oil"], selective=True
    )
    decision = ask(book_of(entry), "Who lit the lamp?").decisions[0]
    assert (decision.selected, decision.reason, decision.direct_keyword_hit) == (
        True,
        "hybrid",
        False,
    )
    assert ask(book_of(entry), "lamp", strategy="rules").decisions[0].reason == "not_triggered"


def test_78_no_vectors_hybrid_works_and_says_so() -> None:
    answer = ask(book_of(Entry(id="lamp", content="A lamp of whale oil.")), "whale")
    assert [block.reason for block in answer.blocks] == ["hybrid"]
    assert answer.degraded == ("vector_disabled",)


def test_79_what_the_caller_could_not_get_is_passed_on() -> None:
    book = book_of(Entry(id="lamp", content="A lamp of whale oil."))
    vectors = VectorScores(degraded=("embedding_unavailable",))
    request = SelectRequest(books=[book.ref], query="whale", strategy="hybrid")
    answer = select([book], request, vectors=vectors)
    assert answer.degraded == ("embedding_unavailable",)
    assert answer.blocks[0].reason == "hybrid"


def test_80_at_most_30_are_recalled() -> None:
    entries = [Entry(id=f"e{n:03}", content=f"A lamp, number {n}.") for n in range(200)]
    answer = ask(book_of(*entries), "lamp", max_entries=200, token_budget=32_000)
    assert [block.reason for block in answer.blocks] == ["hybrid"] * 30


def test_80_at_most_30_are_recalled_by_similarity() -> None:
    entries = [Entry(id=f"e{n:03}", content=f"灯塔 {n}") for n in range(200)]
    book = book_of(*entries)
    near = {entry.full_id: 1 - entry.index / 200 for entry in book.entries}
    request = SelectRequest(
        books=[book.ref], query="?", strategy="hybrid", max_entries=200, token_budget=32_000
    )
    answer = select([book], request, vectors=VectorScores.of(near, [book]))
    assert [block.reason for block in answer.blocks] == ["hybrid"] * 30
    assert {block.entry_id for block in answer.blocks} == {f"e{n:03}" for n in range(30)}


def test_81_a_title_outranks_the_same_word_in_a_content() -> None:
    entries = [
        Entry(id="a", content="lamp oil wick glass"),
        Entry(id="b", title="lamp", content="oil wick glass"),
    ]
    scores = {d.entry_id: d.hybrid_score for d in ask(book_of(*entries), "lamp").decisions}
    assert (scores["b"] or 0) > (scores["a"] or 0) > 0


def test_82_a_pair_of_characters_finds_the_entry() -> None:
    entries = [
        Entry(id="tower", content="雾中的灯塔有人看守。"),
        Entry(id="sea", content="海水很冷。"),
    ]
    answer = ask(book_of(*entries), "灯塔")
    assert [block.entry_id for block in answer.blocks] == ["tower"]


def test_83_rules_take_no_vectors() -> None:
    """The scores would recall the entry; the strategy `rules` does not look at them."""
    book = book_of(Entry(id="lamp", content="A lamp."))
    vectors = VectorScores.of({book.entries[0].full_id: 1.0}, [book], embedding_version="test/1")
    request = SelectRequest(books=[book.ref], query="nothing")
    answer = select([book], request, vectors=vectors)
    assert (answer.blocks, answer.degraded) == ((), ())
    assert answer == select([book], request)


def test_88_similarities_of_a_revision_say_nothing_of_the_next() -> None:
    """Whether an index is ready is the caller's to say; the engine never mixes revisions."""
    entries = [Entry(id="a", content="A lamp."), Entry(id="b", content="海水")]
    first = book_of(*entries)
    second = compile_book(
        BookCreate(name="Harbour", entries=entries), book_id=first.book_id, revision=2
    )
    vectors = VectorScores.of({first.entries[1].full_id: 0.9}, [first], embedding_version="t/1")
    for book, found in ((first, ["a", "b"]), (second, ["a"])):
        request = SelectRequest(books=[book.ref], query="lamp", strategy="hybrid")
        answer = select([first, second], request, vectors=vectors)
        assert sorted(block.entry_id for block in answer.blocks) == found
        assert answer.degraded == ()
    why = (f"index_not_ready:{second.book_id}:2",)
    degraded = select([second], request, vectors=VectorScores(degraded=why))
    assert degraded.degraded == why


PROGRAM = """
import socket

def refuse(*_, **__):
    raise AssertionError("the network was asked")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
socket.create_connection = refuse
from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
book = compile_book(BookCreate(name="B", entries=[Entry(content="x", keys=["/l.mp/u"])]))
print(select([book], SelectRequest(books=[book.ref], query="lamp")).token_count)
"""


def test_109_everything_is_bundled() -> None:
    """Vocabulary and regex engine included, in a process that has loaded nothing before."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, encoding="utf-8"
    )
    assert int(done.stdout) > 0


@pytest.mark.parametrize("query", ["", "ランプ", "🦊"])
def test_a_query_without_a_known_word_recalls_nothing(query: str) -> None:
    answer = ask(book_of(Entry(id="lamp", content="A lamp.")), query or "?")
    assert answer.decisions[0].reason == "not_triggered"
