"""Regex keys against Node's answers; jsregex/record.mjs asks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from golden.cases import HERE
from lorewell.jsregex import Look, Parts, Pattern, PatternOutcome, RegexGuard

TABLE = json.loads((HERE / "jsregex" / "node.json").read_text(encoding="utf-8"))
CASES = TABLE["cases"]


def points(text: str, unit: int, *, up: bool) -> int:
    """Return the code points before this code unit, counting a pair that it cuts if `up`."""
    units = 0
    for point, character in enumerate(text):
        if units == unit:
            return point
        units += 1 + (character > "\uffff")
        if units > unit:
            return point + up
    assert units == unit
    return len(text)


def expected(text: str, answer: Any) -> PatternOutcome:
    """Translate Node's answer; an empty match inside a pair widens to it as others do."""
    match answer:
        case None:
            return PatternOutcome("miss")
        case "invalid":
            return PatternOutcome("invalid")
        case [start, end]:
            return PatternOutcome(
                "hit", (points(text, start, up=False), points(text, end, up=True))
            )
    raise AssertionError(answer)


def test_table_is_large_and_says_where_it_is_from() -> None:
    assert len(CASES) >= 150
    assert re.match(r"Node v20\.", TABLE["source"])


@pytest.mark.parametrize(("source", "flags", "text", "answer"), CASES)
def test_key_finds_what_node_finds(source: str, flags: str, text: str, answer: Any) -> None:
    look = Look(((0, len(text)),), (Pattern(source, flags),), fallback=False, secondary=())
    (seen,) = RegexGuard().search(text, [look])
    assert seen.primary == (expected(text, answer),)


def whole(start: int, end: int) -> Parts:
    return ((start, end),)


def halves(start: int, end: int) -> Parts:
    middle = (start + end) // 2
    return ((start, middle), (middle, end))


@pytest.mark.parametrize("cut", [whole, halves])
def test_all_cases_as_parts_of_one_text(cut: Callable[[int, int], Parts]) -> None:
    """A part is searched as if nothing stood around it."""
    text, looks = "", []
    for source, flags, searched, _ in CASES:
        start = len(text)
        text += searched
        parts = cut(start, len(text))
        looks.append(Look(parts, (Pattern(source, flags),), fallback=False, secondary=()))
    seen = RegexGuard().search(text, looks)
    assert [each.primary[0] for each in seen] == [
        expected(searched, answer) for _, _, searched, answer in CASES
    ]


def test_parts_far_apart_are_searched_as_one_text() -> None:
    """The second half of each text stands before the first, with other texts between them."""
    halves = [(text[: len(text) // 2], text[len(text) // 2 :]) for _, _, text, _ in CASES]
    text = "".join(last for _, last in halves) + "".join(first for first, _ in halves)
    late, early, looks = sum(len(last) for _, last in halves), 0, []
    for (source, flags, _, _), (first, last) in zip(CASES, halves, strict=True):
        parts = ((late, late + len(first)), (early, early + len(last)))
        late, early = late + len(first), early + len(last)
        looks.append(Look(parts, (Pattern(source, flags),), fallback=False, secondary=()))
    seen = RegexGuard().search(text, looks)
    assert [each.primary[0] for each in seen] == [
        expected(searched, answer) for _, _, searched, answer in CASES
    ]
