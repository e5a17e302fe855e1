"""The budget of a turn: what is counted, when it ends, and that nothing but the input decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lorewell import BookCreate, SelectRequest, Steps, VectorScores, compile_book, select
from lorewell.engine.replica import activate as activate_replica, compile_world as compile_replica
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.world import compile_world
from lorewell.errors import TooExpensiveError
from lorewell.insight.replay import replay
from lorewell.model.conversation import ReplayRequest
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from replica_books import conditional, keyed
from world_info import library, request

Turn = Callable[[Steps], object]


def test_a_step_beyond_the_limit_ends_the_work() -> None:
    steps = Steps(10)
    steps.spend("matching", 4)
    steps.spend("keys", 6)
    with pytest.raises(TooExpensiveError, match="more than 10 steps") as caught:
        steps.spend("keys", 500)
    by = {"keys": 7, "matching": 4}
    assert caught.value.details == {"steps": 11, "max_steps": 10, "by": by}


def test_figures_do_not_depend_on_the_size_of_portions() -> None:
    spent = []
    for portion in (1, 3, 100):
        steps = Steps(50)
        for _ in range(50 // portion):
            steps.spend("keys", portion)
        with pytest.raises(TooExpensiveError) as caught:
            steps.spend("keys", portion + 2)
        spent.append(caught.value.details)
    assert spent[0] == spent[1] == spent[2]


def test_watch_is_called_every_few_thousand_steps() -> None:
    seen: list[int] = []
    steps = Steps(100_000, watch=lambda: seen.append(steps.spent))
    for _ in range(90):
        steps.spend("matching", 1_000)
    assert seen == list(range(2_000, 90_001, 2_000))
    steps.watch()
    assert len(seen) == 46
    Steps().watch()


def test_watch_ends_the_work() -> None:
    def leave() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        native_turn(30)(Steps(watch=leave))


def test_texts_are_counted_before_they_are_made_and_turn_by_turn() -> None:
    steps = Steps(max_chars=100)
    steps.write("macros", 60)
    steps.begin_turn()
    steps.write("macros", 60)
    with pytest.raises(TooExpensiveError, match=r"120 characters .* at most 100") as caught:
        steps.write("escaping", 60)
    by = {"escaping": 60, "macros": 60}
    assert caught.value.details == {"chars": 120, "max_chars": 100, "by": by}


def native_turn(size: int, *, order: int | None = None, **asked: object) -> Turn:
    """Return a selection with something of every kind of work in it."""
    entries: list[dict[str, Any]] = [
        {
            "id": f"e{number:03}",
            "content": "{{user}} lights lamp" + str(number + 1) if number % 3 else "A lamp.",
            "keys": [f"lamp{number}", "a" * (number + 1), f"/oil{number}/"],
            "secondary_keys": ["lamp", "night"],
            "selective": number % 2 == 0,
            "key_expression": "lamp and not fog",
            "match_whole_words": number % 2 == 1,
            "scan_depth": number % 5,
            "conditions": [{"path": "hour", "op": "in", "value": [7, 8]}],
            "conditions_text": ["tb.hour > 3 and tb.bag 包括 lamp"],
            "requires": [f"e{number - 1:03}"] if number % 4 == 1 else [],
            "exclude_recursion": False,
            "prevent_recursion": False,
        }
        for number in range(size)
    ]
    if order is not None:
        random.Random(order).shuffle(entries)
    book = compile_book(
        parse_model(BookCreate, {"name": "B", "entries": entries}),
        book_id="44444444-4444-4444-8444-444444444444",
    )
    history = [{"role": "user", "content": f"{'a' * 300} lamp{n} lamp foxes"} for n in range(6)]
    document = {
        "books": [{"book_id": book.book_id}],
        "query": "lamp0 in the night, lamp1",
        "history": history,
        "state": {"hour": 7, "bag": ["lamp", "oil"]},
        "template_vars": {"user": "Sera"},
        "max_recursion_rounds": 5,
        **asked,
    }
    asked_for = parse_model(SelectRequest, document)
    vectors = VectorScores()
    return lambda steps: select([book], asked_for, vectors=vectors, steps=steps)


def sillytavern_turn(size: int, **members: object) -> Turn:
    entries = {
        str(number): {
            "key": [f"lamp{number}", "a" * (number + 1), f"/oil{number}/", "{{user}}"],
            "keysecondary": ["lamp", "night"],
            "selective": number % 2 == 0,
            "content": f"{{{{user}}}} lamp{number + 1}",
            "group": "g" if number % 3 else "",
            "probability": 50 + number,
            "sticky": 2,
            "useGroupScoring": number % 4 == 0,
        }
        for number in range(size)
    }
    books = library(entries)
    given = {"macros": {"user": "Sera"}, "explain": "full", **members}
    asked = request(["a" * 300 + " lamp0 night", "lamp1 lamps"], **given)
    return lambda steps: activate(books, asked, steps=steps)


def replica_turn(size: int, *, order: int | None = None) -> Turn:
    entries = [
        keyed(f"e{n}", f"lamp{n}", "a" * (n + 1), group=["g"] if n % 3 else None)
        for n in range(size)
    ]
    entries += [conditional(f"c{n}", "tb.bag 包括 lamp", requires=[f"e{n}"]) for n in range(size)]
    if order is not None:
        random.Random(order).shuffle(entries)
    world = compile_replica({"name": "B", "entries": entries}, book_id="b")
    document = {
        "worldBookData": {"globalBooks": [{"id": "b"}]},
        "mes": "a lamp0",
        "chatHistory": ["a" * 300, "lamp1 lamp"],
        "dynamicTableData": {"currentValues": {"bag": ["oil", "lamp"]}},
    }
    asked = parse_model(ReplicaRequest, document)
    return lambda steps: activate_replica({"b": world}, asked, steps=steps)


TURNS: Mapping[str, Callable[[], Turn]] = {
    "native": lambda: native_turn(30),
    "hybrid": lambda: native_turn(30, strategy="hybrid", explain="none"),
    "sillytavern": lambda: sillytavern_turn(30),
    "replica": lambda: replica_turn(30),
}


@pytest.mark.parametrize("name", TURNS)
def test_what_was_computed_before_makes_nothing_cheaper(name: str) -> None:
    turn, fresh = TURNS[name](), TURNS[name]()
    counted = []
    for run in (turn, turn, turn, fresh):
        steps = Steps()
        run(steps)
        counted.append((steps.spent, dict(steps.by), steps.chars))
    assert counted[0] == counted[1] == counted[2] == counted[3]
    assert counted[0][0] == sum(counted[0][1].values())


def limits(most: int) -> Iterator[int]:
    """Yield limits up to that of the whole turn."""
    yield from (most * share // 40 for share in range(40))


@pytest.mark.parametrize("make", [native_turn, replica_turn])
def test_order_of_entries_changes_no_figure(make: Callable[..., Turn]) -> None:
    turns = [make(30, order=order) for order in (None, 1, 2)]
    spent = []
    for run in turns:
        steps = Steps()
        run(steps)
        spent.append((steps.spent, dict(steps.by)))
    assert spent[0] == spent[1] == spent[2]
    for limit in limits(spent[0][0]):
        spent = []
        for run in turns:
            with pytest.raises(TooExpensiveError) as caught:
                run(Steps(limit))
            spent.append(caught.value.details)
        assert spent[0] == spent[1] == spent[2]


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_passes_with_exactly_the_steps_that_it_needs(name: str) -> None:
    turn, steps = TURNS[name](), Steps()
    answer = turn(steps)
    assert turn(Steps(steps.spent)) == answer
    with pytest.raises(TooExpensiveError):
        turn(Steps(steps.spent - 1))


def test_books_inside_of_a_request_are_counted() -> None:
    entries = {str(n): {"uid": n, "key": [f"k{n}"], "content": "x" * 3_000} for n in range(9)}
    steps = Steps()
    assert len(compile_world("b", list(entries.values()), steps=steps).entries) == 9
    assert steps.by["compile"] > 9 * 20
    with pytest.raises(TooExpensiveError):
        compile_world("b", list(entries.values()), steps=Steps(steps.spent - 1))
    book = parse_model(BookCreate, {"name": "B", "entries": [{"content": "C", "keys": ["k"]}]})
    steps = Steps()
    compile_book(book, steps=steps)
    assert steps.by["compile"] > 30
    listed = {"entries": [keyed(f"e{n}", "k") for n in range(9)]}
    steps = Steps()
    compile_replica(listed, book_id="b", steps=steps)
    assert steps.by["compile"] > 9 * 20


def test_a_replay_counts_all_turns_together_or_each_by_itself() -> None:
    books = library({"0": {"key": ["lamp"], "content": "{{user}} lights it."}})
    lines = [{"name": "A", "content": f"lamp {number}"} for number in range(8)]
    asked = parse_model(
        ReplayRequest, {"chat": lines, "context_tokens": 1_000, "macros": {"user": "Sera"}}
    )
    steps = Steps(max_chars=30)  # each turn makes 17
    assert len(list(replay(books, asked, steps=steps))) == 8
    assert steps.by["turns"] >= 8 * 100
    turns = replay(books, asked, steps=Steps(steps.spent // 2))
    seen = []
    with pytest.raises(TooExpensiveError):
        seen.extend(turns)
    assert len(list(replay(books, asked))) == 8
