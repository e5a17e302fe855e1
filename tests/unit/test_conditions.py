"""The language of conditions and key expressions: what its texts mean, and what is wrong where."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lorewell.engine.conditions import (
    And,
    Comparison,
    Expression,
    Flaw,
    Not,
    Or,
    Word,
    describe_fields,
    holds,
    in_state,
    in_table,
    parse_condition,
    parse_expression,
    parse_key_expression,
    write,
)
from lorewell.engine.conditions.truth import compare

TABLE: dict[str, Any] = {"力量": 15, "态度": "友好", "tags": ["灯", 3, None], "on": True}


def is_true(text: str, table: dict[str, Any] | None = None) -> bool:
    look = in_table(TABLE if table is None else table)
    parsed = parse_condition(text)
    assert isinstance(parsed, Comparison), parsed
    return compare(look(parsed.field), parsed.operator, parsed.value)


def is_true_in(text: str, state: dict[str, Any]) -> bool:
    parsed = parse_expression(text)
    assert not isinstance(parsed, Flaw), parsed
    look = in_state(state)

    def truth(leaf: Expression) -> bool:
        assert isinstance(leaf, Comparison)
        return compare(look(leaf.field), leaf.operator, leaf.value)

    return holds(parsed, truth)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tb.力量 > 10", True),
        ("tb.力量 > 15", False),
        ("tb.力量 >= 15", True),
        ("tb.力量 >= 16", False),
        ("tb.力量 < 15.5", True),
        ("tb.力量 < 15", False),
        ("tb.力量 <= 15", True),
        ("tb.力量 <= -15", False),
        ("tb.力量 == 15.0", True),
        ("tb.力量 == 16", False),
        ("tb.力量 != 16", True),
        ("tb.力量 != 15", False),
        ("tb.力量 = 15", True),
        ('tb.态度 = "友好"', True),
        ("tb.态度 = 友", False),
        ('tb.态度 包括 "友"', True),
        ('tb.态度 包括 "恶"', False),
        ("tb.态度 > 3", False),
        ("tb.敏捷 != 1", False),
        ("tb.力量>10", True),
        ("  tb.力量  >  +10  ", True),
        ("tb.tags 包括 灯", True),
        ("tb.tags 包括 3.0", True),
        ("tb.tags 包括 火", False),
        ("tb.tags 包括 null", False),
        ("tb.on = true", True),
        ("tb.on == 1", False),
        ("tb.力量 ＞ 10", True),
        ("tb.力量 ≥ 15", True),
        ("tb.力量 ≠ 15", False),
        ("tb.态度 包括 ”", False),
    ],
)
def test_a_condition_is_true_or_false(text: str, *, expected: bool) -> None:
    assert is_true(text) is expected


@pytest.mark.parametrize("operator", [">", "<", ">=", "<=", "==", "!=", "=", "包括"])
@pytest.mark.parametrize("table", [{}, {"x": None}])
def test_a_missing_field_is_false_for_every_operator(
    operator: str, table: dict[str, object]
) -> None:
    assert not is_true(f"tb.x {operator} 1", table)


def test_numeric_text_is_a_number_on_both_sides() -> None:
    assert is_true("tb.x > 10", {"x": "15"})
    assert not is_true("tb.x > 10", {"x": "abc"})
    assert is_true('tb.x = "15.0"', {"x": 15})
    assert is_true("tb.x = 0.1", {"x": 0.1})
    assert not is_true("tb.x > 1", {"x": float("nan")})
    assert is_true("tb.x > 1", {"x": 10**5000})
    assert is_true("tb.x 包括 000", {"x": 10**5000})
    assert is_true("tb.x = 1٣", {"x": "1٣"}), "digits of other scripts make a text"


def test_values_of_other_types_count_as_their_text() -> None:
    assert is_true('tb.x 包括 "king"', {"x": {"name": "king"}})
    assert is_true("tb.x = [1]", {"x": [1]})
    assert is_true("tb.x 包括 15", {"x": 15.0})
    assert is_true("tb.x 包括 1.5", {"x": 1.5})


@pytest.mark.parametrize(
    ("text", "field", "operator", "value"),
    [
        ("tb.心情 今天 = 好", "心情 今天", "=", "好"),
        ("tb.包括包括x", "包括", "包括", "x"),
        ("tb.a=='b' c'", "a", "==", "b' c"),
        ('tb.a = "x" and tb.b = "y"', "a", "=", 'x" and tb.b = "y'),
        ("tb.a = “灯塔”", "a", "=", "灯塔"),
        ("tb.a = 「灯塔」", "a", "=", "灯塔"),
        ('tb.a = ""', "a", "=", ""),
        ("tb.a > =5", "a", ">", "=5"),
        ("tb.ไทย=👩‍👩‍👧", "ไทย", "=", "👩‍👩‍👧"),
        ('tb.x == __import__("os")', "x", "==", '__import__("os")'),
    ],
)
def test_a_condition_is_read(text: str, field: str, operator: Any, value: str) -> None:
    assert parse_condition(text) == Comparison(field, operator, value)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0),
        ("力量 > 10", 0),
        ("TB.x > 1", 0),
        ("tb.x", 4),
        ("tb.x 10", 7),
        ("tb. > 10", 3),
        ("tb.==5", 3),
        ("tb.x >", 6),
        ('tb.x = "灯塔', 7),
        ('tb.x = "灯塔" 旧', 11),
        ("tb.x = " + "长" * 494, 500),
    ],
)
def test_a_broken_condition_tells_where(text: str, at: int) -> None:
    flaw = parse_condition(text)
    assert isinstance(flaw, Flaw)
    assert flaw.at == at
    assert flaw.detail


A, B, C = (Comparison(name, "=", "1") for name in "abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tb.a=1", A),
        ("tb.a=1 and tb.b=1 or tb.c=1", Or((And((A, B)), C))),
        ("tb.a=1 AND (tb.b=1 Or tb.c=1)", And((A, Or((B, C))))),
        ("not tb.a=1 and tb.b=1", And((Not(A), B))),
        ("not (tb.a=1 and tb.b=1)", Not(And((A, B)))),
        ("(tb.a=1 and tb.b=1) and tb.c=1", And((And((A, B)), C))),
        ("tb.a = 1 且 tb.b = 1 或 非 tb.c = 1", Or((And((A, B)), Not(C)))),
        ("tb.a=1且tb.b=1或非tb.c=1", Or((And((A, B)), Not(C)))),
        ("（tb.a=1）且(非（tb.b=1）)", And((A, Not(B)))),
        (
            'tb.a = "x" and tb.b = "y"',
            And((Comparison("a", "=", "x"), Comparison("b", "=", "y"))),
        ),
        ("tb.a = 高兴且忙 and tb.b = 1", And((Comparison("a", "=", "高兴且忙"), B))),
        ("tb.a(旧) = 1", Comparison("a(旧)", "=", "1")),
        ("tb.a = andor", Comparison("a", "=", "andor")),
        ('tb.a = "not (here)"', Comparison("a", "=", "not (here)")),
    ],
)
def test_an_expression_is_read(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "at", "word"),
    [
        ("", 0, "tb."),
        ("tb.a = 1 and", 12, "tb."),
        ("tb.a = 1 tb.b = 1", 14, "quotes"),
        ("(tb.a = 1", 0, "closed"),
        ("tb.a = 1)", 8, "end"),
        ("(tb.a = 1 not)", 10, "bracket"),
        ("tb.a and tb.b > 3", 5, "expected one of"),
        ("tb.a 或=3", 5, "expected one of"),
        ("tb.a = ( 1 )", 7, "a value"),
        ('tb.a = "x', 7, "closed"),
        ('tb.a = "x" y', 11, "end"),
        ("and tb.a = 1", 0, "tb."),
        ("(" * 40 + "tb.a = 1" + ")" * 40, 30, "nest"),
        ("not " * 40 + "tb.a = 1", 120, "nest"),
        ("tb.a = 1 or " * 60, 500, "500"),
    ],
)
def test_a_broken_expression_tells_where(text: str, at: int, word: str) -> None:
    flaw = parse_expression(text)
    assert isinstance(flaw, Flaw)
    assert flaw.at == at, flaw
    assert word in flaw.detail


def test_a_name_with_dots_is_itself_before_it_is_a_path() -> None:
    state = {"英雄": {"力量": 15, "物品": ["灯", "绳"]}, "a.b": 1, "a": {"b": 2}}
    assert is_true_in("tb.英雄.力量 > 10 and tb.英雄.物品.1 = 绳", state)
    assert is_true_in("tb.英雄.物品 包括 灯", state)
    assert is_true_in("tb.a.b = 1", state)
    assert is_true_in("not tb.英雄.敏捷 != 1", state), "missing is false, and its negation true"


def test_what_the_fields_are_is_told() -> None:
    parsed = parse_expression('tb.力量 > 20 or tb.态度 = "恶" or not tb.缺 = 1 or tb.力量 < 3')
    assert not isinstance(parsed, Flaw)
    assert describe_fields(parsed, in_table(TABLE)) == '力量 is 15, 态度 is "友好", 缺 is missing'
    long = describe_fields(Comparison("x", "=", "1"), in_table({"x": "长" * 100}))
    assert len(long) < 80


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("king", Word("king")),
        ("red dragon and king", And((Word("red dragon"), Word("king")))),
        (
            "(A and B) or (C and not D)",
            Or((And((Word("A"), Word("B"))), And((Word("C"), Not(Word("D")))))),
        ),
        ("灯塔 且 非 夜", And((Word("灯塔"), Not(Word("夜"))))),
        ("灯塔且夜", Word("灯塔且夜")),
        ("非洲 或 或许", Or((Word("非洲"), Word("或许")))),
        ("「灯塔」且“夜”", And((Word("灯塔"), Word("夜")))),
        ("sandor's land", Word("sandor's land")),
        ('"and" or "(x)"', Or((Word("and"), Word("(x)")))),
        ("ดาบ และ or 🗡️", Or((Word("ดาบ และ"), Word("🗡️")))),
    ],
)
def test_a_key_expression_is_read(text: str, expected: Expression) -> None:
    assert parse_key_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "at"),
    [("", 0), ("and", 0), ("a or", 4), ("a or or b", 5), ('" "', 0), ("a (b)", 2), ("非", 1)],
)
def test_a_broken_key_expression_tells_where(text: str, at: int) -> None:
    flaw = parse_key_expression(text)
    assert isinstance(flaw, Flaw)
    assert flaw.at == at, flaw


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("tb.a=1 且(tb.b=1 或 tb.c=1)", "tb.a = 1 and (tb.b = 1 or tb.c = 1)"),
        ("非 tb.a ≥ 1 或 tb.b=好且tb.c=1", 'not tb.a >= 1 or tb.b = "好" and tb.c = 1'),
        ("""tb.a = 'say "hi"'""", """tb.a = 'say "hi"'"""),
        ("""tb.a = x"'”」""", """tb.a = x"'”」"""),
    ],
)
def test_an_expression_is_written(text: str, written: str) -> None:
    parsed = parse_expression(text)
    assert not isinstance(parsed, Flaw)
    assert write(parsed) == written
    assert parse_expression(written) == parsed


def lines_run(text: str) -> int:
    """Return how many lines of Python reading a text takes."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse_expression(text)
        parse_condition(text)
        parse_key_expression(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "piece",
    ["(", "not ", "非", "tb.", "tb.a=1 and ", "a or ", "且", '"', "tb.a=「", " ", "包括", "="],
)
def test_reading_takes_steps_in_proportion_to_the_text(piece: str) -> None:
    half, whole = (lines_run(piece * (chars // len(piece))) for chars in (250, 500))
    assert whole <= 2 * half + 200
    assert whole <= 40 * 500
