"""Keys joined by and, or and not, in entries of the native policy."""

from __future__ import annotations

import itertools

import pytest

from lorewell import BookCreate, Decision, Entry
from lorewell.insight import diagnostics
from lorewell.model import content_hash
from support import ask, compiled, decision_of, entry, said


def decide(expression: str, query: str, *history: str, **members: object) -> Decision:
    book = compiled([entry("a", key_expression=expression, **members)])
    return decision_of(ask(book, query, history=said(*history)), "a")


def test_it_holds_where_its_truth_table_says() -> None:
    words = ("tower", "灯塔", "ประภาคาร", "🗡️")
    for there in itertools.product([False, True], repeat=4):
        a, b, c, d = there
        query = " ".join(["。", *itertools.compress(words, there)])
        found = decide("(tower and 灯塔) or (ประภาคาร and not 🗡️)", query)
        assert found.selected is ((a and b) or (c and not d)), query


def test_the_key_named_is_the_first_wanted_one_found() -> None:
    found = decide("(king and not oil) or (oil and not king)", "oil for the lamp")
    assert (found.reason, found.facts.key, found.facts.span) == ("keyword", "oil", (0, 3))
    assert found.direct_keyword_hit


def test_what_was_found_and_what_not_is_told() -> None:
    missed = decide("灯塔 且 夜 且 非 雾", "去灯塔")
    assert missed.reason == "not_triggered"
    assert missed.detail == "key expression: '灯塔' found, '夜', '雾' not"
    barred = decide("灯塔 and not 雾", "灯塔在雾里")
    assert barred.detail == "key expression: '灯塔', '雾' found, nothing not"
    assert decide("灯塔 and 夜", "白天").detail is None


def test_keys_and_expression_stand_side_by_side() -> None:
    both = {"keys": ["渡口", "/lamps?/"]}
    assert decide("灯塔 and 夜", "渡口", **both).facts.key == "渡口"
    assert decide("灯塔 and 夜", "灯塔的夜", **both).facts.key == "灯塔"
    assert decide("灯塔 and 夜", "two lamps", **both).facts.key == "/lamps?/"
    assert decide("灯塔 and 夜", "灯塔", **both).detail == "key expression: '灯塔' found, '夜' not"


@pytest.mark.parametrize(("query", "selected"), [("灯塔的夜", False), ("灯塔的夜, fog", True)])
@pytest.mark.parametrize("secondary", ["fog", "/f.g/"])
def test_secondary_keys_count_as_for_a_key(query: str, secondary: str, *, selected: bool) -> None:
    found = decide("灯塔 and 夜", query, selective=True, secondary_keys=[secondary])
    assert found.selected is selected


def test_case_whole_words_and_depth_are_those_of_the_entry() -> None:
    assert decide("King and Queen", "the king, the queen").selected
    assert not decide("King and Queen", "the king, the Queen", case_sensitive=True).selected
    assert decide("king and queen", "kingdom, queens").selected
    assert not decide("king and queen", "kingdom, queen", match_whole_words=True).selected
    assert decide("king and queen", "queen", "king").selected
    assert not decide("king and queen", "queen", "king", scan_depth=1).selected


def test_a_text_of_another_entry_can_complete_it() -> None:
    book = compiled(
        [
            entry("waker", "灯塔", content="夜里有雾", prevent_recursion=False),
            entry("woken", key_expression="灯塔 and 雾", exclude_recursion=False),
            entry("barred", key_expression="灯塔 and not 雾", exclude_recursion=False),
        ]
    )
    response = ask(book, "去灯塔")
    woken = decision_of(response, "woken")
    assert (woken.reason, woken.round) == ("recursion", 1)
    assert woken.facts.woken_by == decision_of(response, "waker").id
    assert woken.facts.message == 0
    assert decision_of(response, "barred").reason == "keyword", "it held in the first round"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("灯塔 and", "at character 6"),
        ("not 夜", "none of its keys"),
        ("灯塔 or not 夜", "none of its keys"),
        ("灯塔 or /夜./", "regex"),
        (" ", "expected a key"),
    ],
)
def test_what_cannot_hold_is_reported_and_never_does(expression: str, why: str) -> None:
    book = compiled([entry("a", key_expression=expression), entry("b", "灯塔")])
    (found,) = diagnostics(book)
    assert (found.entry_id, found.code) == ("a", "key_expression_unreadable")
    assert why in found.message
    response = ask(book, "去灯塔")
    assert [block.entry_id for block in response.blocks] == ["b"]


def test_plain_keys_are_never_expressions() -> None:
    book = compiled([entry("a", "king and queen"), entry("b", "(king)")])
    assert ask(book, "king, queen").blocks == ()
    assert len(ask(book, "king and queen (king)").blocks) == 2


def test_it_counts_in_the_hash_only_where_it_is_used() -> None:
    bare, none, used = (
        BookCreate(name="雾", entries=[Entry(content="x", **given)])
        for given in ({}, {"key_expression": None}, {"key_expression": "灯塔 and 夜"})
    )
    assert content_hash(bare) == content_hash(none) != content_hash(used)
