"""Keys that lie in one another, in long runs: every occurrence counts, few are looked at."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.engine.matching import hits, literal
from lorewell.engine.matching.literal import Hit, LiteralIndex
from lorewell.engine.steps import Steps


def naive(patterns: Sequence[str], text: str, most: int, after: int = 0) -> list[Hit]:
    """Return the first places of every pattern, trying all of them."""
    found: list[Hit] = []
    for number, pattern in enumerate(patterns):
        starts = [at for at in range(len(text)) if text.startswith(pattern, at)]
        spans = [(number, at, at + len(pattern)) for at in starts if at + len(pattern) > after]
        found += spans[:most]
    return sorted(found)


def index_of(patterns: Sequence[str]) -> LiteralIndex:
    return LiteralIndex(patterns, [()] * len(patterns))


@pytest.mark.parametrize("most", [1, 3, 10_000])
@pytest.mark.parametrize("after", [0, 7, 333])
def test_slices_find_what_a_slow_search_finds(
    monkeypatch: pytest.MonkeyPatch, most: int, after: int
) -> None:
    source = random.Random(7)
    monkeypatch.setattr(literal, "_SLICE_CHARS", 50)
    monkeypatch.setattr(literal, "_MOST_KEY_CHARS", 12)
    monkeypatch.setattr(literal, "MAX_PLACES", most)
    for size in (1, 4, 12, 40):
        drawn = {"".join(source.choices("ab灯", k=source.randint(1, 6))) for _ in range(size)}
        text = "".join(source.choices("aab灯", k=400))
        patterns = [*sorted(drawn), "a" * 14, text[100:120], text[90:120]]
        found = index_of(patterns).find(text, Steps(), after=after)
        assert sorted(found) == naive(patterns, text, most, after)
        for number in range(len(patterns)):
            starts = [start for pattern, start, _ in found if pattern == number]
            assert starts == sorted(starts)


@given(
    patterns=st.lists(st.text("ab", min_size=1, max_size=5), unique=True, max_size=9),
    text=st.text("ab", max_size=30),
)
def test_order_of_keys_changes_neither_places_nor_cost(patterns: list[str], text: str) -> None:
    there, back = Steps(), Steps()
    found = index_of(patterns).find(text, there)
    turned = index_of(patterns[::-1]).find(text, back)
    last = len(patterns) - 1
    assert sorted(found) == sorted((last - p, start, end) for p, start, end in turned)
    assert sorted(found) == naive(patterns, text, literal.MAX_PLACES)
    assert there.spent == back.spent


def test_occurrences_are_found_across_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal, "_SLICE_CHARS", 4)
    text = "aab" * 30
    for wanted in ("a", "ab", "aabaab", "aabaabaabaab", "x", text, text + "a"):
        for begin in (0, 1, 44, 89, 90, 91):
            starts = [at for at in range(begin, 90) if text.startswith(wanted, at)]
            assert list(literal.occurrences(text, wanted, begin, Steps())) == starts


def test_a_key_with_a_line_break_is_found_beyond_the_noted_places() -> None:
    texts = ["x\nyz " * 20 + "x", "y", "x", "yes"]
    entries = (
        Entry(id="word", content="W", keys=["x\ny"], match_whole_words=True, scan_depth=9),
        Entry(id="part", content="P", keys=["x\ny"], scan_depth=2),
    )
    book = compile_book(BookCreate(name="B", entries=entries))
    history = [{"role": "user", "content": text} for text in texts[:-1]]
    document = {"books": [book.ref], "query": texts[-1], "history": history}
    response = select([book], SelectRequest.model_validate(document))
    found = {each.entry_id: each.facts for each in response.decisions}
    assert (found["word"].message, found["word"].span) == (0, (100, 103))
    assert (found["part"].message, found["part"].span) == (2, (0, 3))


def test_what_is_remembered_of_many_texts_is_counted_in_portions() -> None:
    index, seen = index_of(["fox"]), list[int]()
    texts = ["a fox " * 500] * 200
    once = Steps(10**9)
    assert len(list(index.find_each(texts, once))) == 200
    again = Steps(10**9, watch=lambda: seen.append(again.spent))
    list(index.find_each(texts, again))
    assert once.spent == again.spent
    assert len(seen) > 3


def test_a_valid_place_beyond_the_noted_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hits, "MAX_PLACES", 3)
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


def test_keys_in_one_another_take_little() -> None:
    keys = ["a" * length for length in range(1, 201)]
    entries = [Entry(id=f"e{n}", content="C", keys=[key]) for n, key in enumerate(keys)]
    book = compile_book(BookCreate(name="B", entries=tuple(entries)))
    history = [{"role": "user", "content": "a" * 16_000}] * 5
    request = SelectRequest.model_validate(
        {"books": [book.ref], "query": "b", "history": history, "token_budget": 32_000}
    )
    steps = Steps()
    tracemalloc.start()
    try:
        answer = select([book], request, steps=steps)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {decision.direct_keyword_hit for decision in answer.decisions} == {True}
    assert steps.spent < 150_000  # 16 million occurrences
    assert peak_bytes < 40 * 1024 * 1024


def test_what_is_remembered_is_bounded_right_and_not_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(literal, "_MAX_CACHED", 3)
    index = index_of(["fox", "灯塔"])
    for number in range(10):
        text = f"{number} fox 灯塔"
        once, again = Steps(), Steps()
        first = index.find_again(text, once)
        assert first == index.find_again(text, again) == index.find(text, Steps())
        assert once.spent == again.spent
        assert len(index._cache) <= 3
    long = "fox " * 2_000
    assert index.find_again(long, Steps()) == index.find(long, Steps())
    assert long not in index._cache
