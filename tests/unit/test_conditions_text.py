"""Conditions in words, in entries of the native policy."""

from __future__ import annotations

from typing import Any

import pytest

from lorewell import Decision
from lorewell.errors import ValidationFailedError
from lorewell.insight import diagnostics
from support import ask, compiled, decision_of, entry

STATE = {"英雄": {"力量": 15, "心情": "很友好"}, "met": True}


def decide(texts: Any, state: dict[str, Any] | None = None) -> Decision:
    book = compiled([entry("a", "灯塔", conditions_text=texts)])
    response = ask(book, "去灯塔", state=STATE if state is None else state)
    return decision_of(response, "a")


@pytest.mark.parametrize(
    "texts",
    [
        "tb.英雄.力量 > 10",
        ["tb.英雄.力量 > 10 且 tb.met = true", '非（tb.英雄.心情 包括 "恶"）'],
        [],
    ],
)
def test_an_entry_goes_in_where_its_conditions_hold(texts: Any) -> None:
    assert decide(texts).reason == "keyword"


def test_what_does_not_hold_is_told_with_its_values() -> None:
    failed = decide(["tb.met = true", "tb.英雄.力量 > 20 or tb.英雄.敏捷 > 3"])
    assert (failed.selected, failed.reason) == (False, "condition_failed")
    assert failed.detail == (
        "text 1: tb.英雄.力量 > 20 or tb.英雄.敏捷 > 3: 英雄.力量 is 15, 英雄.敏捷 is missing"
    )


def test_a_text_that_cannot_be_read_never_holds_and_is_reported() -> None:
    failed = decide("tb.met = true and")
    assert failed.reason == "condition_failed"
    assert failed.detail == (
        "text 0: tb.met = true and: at character 17, expected tb. and the name of a field"
    )
    book = compiled([entry("a", "灯塔", conditions_text=["力量 > 10"])])
    (found,) = diagnostics(book)
    assert (found.entry_id, found.code) == ("a", "condition_unreadable")
    assert "at character 0" in found.message


def test_entries_without_conditions_share_their_fate_no_more() -> None:
    book = compiled([entry("a", "灯塔"), entry("b", "灯塔", conditions_text=["tb.met = false"])])
    response = ask(book, "去灯塔", state=STATE)
    assert [block.entry_id for block in response.blocks] == ["a"]


@pytest.mark.parametrize(
    "given", [["x" * 501], ["tb.a = 1"] * 51, [7], {"text": "tb.a = 1"}, [["tb.a = 1"]]]
)
def test_too_many_too_long_or_no_texts_are_refused(given: object) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        compiled([entry("a", conditions_text=given)])
    assert caught.value.faults[0].pointer.startswith("/entries/0/conditions_text")
