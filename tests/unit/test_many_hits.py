"""Keys that lie in one another, in long runs: every occurrence counts, few are held at once."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.engine.matching import hits, literal
from lorewell.engine.matching.literal import LiteralIndex


def test_pieces_find_what_the_whole_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(7)
    patterns = ["a", "aa", "aaa", "ab", "ba", "灯", "灯a", "abab"]
    text = "".join(source.choice("aab灯") for _ in range(5_000))
    whole = sorted(LiteralIndex(patterns, [()] * len(patterns)).find(text))
    monkeypatch.setattr(literal, "_MOST_AT_ONCE", 50)
    pieces = list(LiteralIndex(patterns, [()] * len(patterns)).find(text))
    assert sorted(pieces) == whole
    for number in range(len(patterns)):
        starts = [start for pattern, start, _ in pieces if pattern == number]
        assert starts == sorted(starts)


def test_a_valid_place_beyond_the_noted_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hits, "MOST_NOTED", 3)
    entries = (
        Entry(id="word", content="W", keys=["fox"], match_whole_words=True),
        Entry(id="none", content="N", keys=["ox"], match_whole_words=True),
        Entry(id="deep", content="D", keys=["fox"], match_whole_words=True, scan_depth=1),
    )
    book = compile_book(BookCreate(name="B", entries=entries))
    history = [{"role": "user", "content": "foxes " * 50 + "a fox"}]
    request = SelectRequest.model_validate(
        {"books": [book.ref], "query": "foxes " * 9 + "fox", "history": history}
    )
    decisions = {each.entry_id: each for each in select([book], request).decisions}
    assert decisions["word"].facts.span == (302, 305)
    assert decisions["deep"].facts.message == 1
    assert decisions["deep"].facts.span == (54, 57)
    assert decisions["none"].reason == "not_triggered"


def test_keys_in_one_another_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal, "_MOST_AT_ONCE", 20_000)
    keys = [["a" * length] for length in range(1, 200)]
    entries = tuple(
        Entry(id=f"e{n}", content="C", keys=key, match_whole_words=True)
        for n, key in enumerate(keys)
    )
    book = compile_book(BookCreate(name="B", entries=entries))
    history = [{"role": "user", "content": "a" * 4_000}]
    request = SelectRequest.model_validate(
        {"books": [book.ref], "query": "b", "history": history, "explain": "none"}
    )
    tracemalloc.start()
    try:
        answer = select([book], request)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.blocks == ()
    assert peak_bytes < 40 * 1024 * 1024  # 800,000 occurrences at once would take 100


def test_what_is_remembered_is_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal, "_MOST_KNOWN", 3)
    index = LiteralIndex(["fox", "灯塔"], [(0,), (1,)])
    for number in range(10):
        text = f"{number} fox 灯塔"
        first = list(index.find_again(text))
        assert first == list(index.find_again(text)) == list(index.find(text))
        assert len(index._known) <= 3
    long = "fox " * 2_000
    assert list(index.find_again(long)) == list(index.find(long))
    assert long not in index._known
