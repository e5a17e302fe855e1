"""Regex keys against Node's answers; jsregex/record.mjs asks for them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from golden.cases import HERE
from lorewell.jsregex import Look, Outcome, Pattern, RegexGuard

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


def expected(text: str, answer: Any) -> Outcome:
    """Translate Node's answer; an empty match inside a pair widens to it as others do."""
    match answer:
        case None:
            return Outcome("miss")
        case "invalid":
            return Outcome("invalid")
        case [start, end]:
            return Outcome("hit", (points(text, start, up=False), points(text, end, up=True)))
    raise AssertionError(answer)


def test_table_is_large_and_says_where_it_is_from() -> None:
    assert len(CASES) >= 150
    assert re.match(r"Node v20\.", TABLE["source"])


@pytest.mark.parametrize(("source", "flags", "text", "answer"), CASES)
def test_key_finds_what_node_finds(source: str, flags: str, text: str, answer: Any) -> None:
    look = Look(text=0, primary=(Pattern(source, flags),), fallback=False, secondary=())
    (seen,) = RegexGuard().search([text], [look])
    assert seen.primary == (expected(text, answer),)


def test_all_cases_in_one_search() -> None:
    looks = [
        Look(text=i, primary=(Pattern(source, flags),), fallback=False, secondary=())
        for i, (source, flags, _, _) in enumerate(CASES)
    ]
    seen = RegexGuard().search([text for _, _, text, _ in CASES], looks)
    assert [each.primary[0] for each in seen] == [
        expected(text, answer) for _, _, text, answer in CASES
    ]
