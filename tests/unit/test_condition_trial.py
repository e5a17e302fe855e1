"""Trying conditions out: in the library and in the program."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from lorewell.cli.main import app
from lorewell.engine.conditions.trial import try_condition
from lorewell.engine.native import select
from lorewell.engine.native.compile import compile_book
from lorewell.errors import ValidationFailedError
from lorewell.model import BookCreate, ConditionTrial, SelectRequest


def test_each_part_says_what_it_came_to() -> None:
    trial = ConditionTrial(
        text="非（tb.a.b=1 或 tb.缺 > 2）且 tb.a.b 包括 灯", table={"a": {"b": ["灯", "塔"]}}
    )
    tried = try_condition(trial)
    assert tried.holds
    assert tried.written == 'not (tb.a.b = 1 or tb.缺 > 2) and tb.a.b 包括 "灯"'
    assert tried.flaw is None
    assert tried.tree is not None
    negation, contains = tried.tree["parts"]
    assert (tried.tree["kind"], negation["kind"], negation["holds"]) == ("and", "not", True)
    (either,) = negation["parts"]
    assert (either["kind"], either["holds"]) == ("or", False)
    assert [(each["found"], each["missing"]) for each in either["parts"]] == [
        (["灯", "塔"], False),
        (None, True),
    ]
    assert contains == {
        "kind": "comparison",
        "holds": True,
        "field": "a.b",
        "operator": "包括",
        "value": "灯",
        "found": ["灯", "塔"],
        "missing": False,
    }


def test_the_rules_of_replica_know_one_comparison_and_no_paths() -> None:
    text, table = "tb.a.b = 1 and tb.c = 2", {"a": {"b": "1 and tb.c = 2"}}
    assert not try_condition(ConditionTrial(text=text, table=table, rules="replica")).holds
    flat = {"a.b": "1 and tb.c = 2"}
    assert try_condition(ConditionTrial(text=text, table=flat, rules="replica")).holds


def test_a_key_expression_says_where_each_key_is_found() -> None:
    trial = ConditionTrial(
        text='(灯塔 且 night) 或 (fog and not "sea fog")', rules="keys", message="灯塔，NIGHT falls"
    )
    tried = try_condition(trial)
    assert tried.holds
    assert tried.written == '灯塔 and night or fog and not "sea fog"'
    assert tried.tree is not None
    both, other = tried.tree["parts"]
    assert both["parts"] == [
        {"kind": "key", "holds": True, "key": "灯塔", "span": (0, 2)},
        {"kind": "key", "holds": True, "key": "night", "span": (3, 8)},
    ]
    assert (other["holds"], other["parts"][1]["kind"]) == (False, "not")
    strict = trial.model_copy(update={"case_sensitive": True})
    assert not try_condition(strict).holds


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("not night", "it would hold where none of its keys is found"),
        ("/n.ght/ and 夜", "a regex can't be part of it"),
        ("(夜", "this bracket is never closed"),
    ],
)
def test_a_key_expression_that_never_holds_says_why(text: str, flaw: str) -> None:
    tried = try_condition(ConditionTrial(text=text, rules="keys", message="夜 night"))
    assert (tried.holds, tried.tree) == (False, None)
    assert tried.flaw is not None
    assert flaw in tried.flaw.detail


MESSAGES = st.lists(
    st.sampled_from(["Ａ", "a", "king", "kingdom", "灯塔", "夜", " ", "ß", "é", "🗡"])
)
LEAVES = st.sampled_from(["a", "king", "灯塔", "夜", "SS", '"e\u0301"', "🗡"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["and", "or", "且", "或"]), part).map(
            lambda three: f"({' '.join(three)})"
        ),
        part.map(lambda one: f"not ({one})"),
    ),
    max_leaves=5,
)


SWITCHES = st.fixed_dictionaries(
    {"case_sensitive": st.booleans(), "match_whole_words": st.booleans()}
)


@given(text=EXPRESSIONS, parts=MESSAGES, switches=SWITCHES)
def test_a_trial_of_keys_agrees_with_a_selection(
    text: str, parts: list[str], switches: dict[str, bool]
) -> None:
    message = "".join(parts) or "-"
    tried = try_condition(ConditionTrial(text=text, rules="keys", message=message, **switches))
    entry = {"content": "x", "key_expression": text, "exclude_recursion": True, **switches}
    compiled = compile_book(BookCreate.model_validate({"name": "b", "entries": [entry]}))
    request = {"books": [{"book_id": compiled.book_id}], "query": message}
    (decision,) = select([compiled], SelectRequest.model_validate(request)).decisions
    assert tried.holds == decision.selected


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["try", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_program_tells_true_and_false() -> None:
    assert run("tb.力量 > 10", "--table", '{"力量": 15}') == (
        0,
        "true\n  true   tb.力量 > 10: it is 15\n",
        "",
    )
    code, out, _ = run("tb.力量 > 10 or tb.心情 = 好", "--table", '{"心情": "坏\\u001b[2J"}')
    assert code == 0
    assert out.splitlines() == [
        "false",
        "  false  or",
        "    false  tb.力量 > 10: it is missing",
        '    false  tb.心情 = 好: it is "坏\\u001b[2J"',
    ]


def test_the_program_tells_where_keys_are() -> None:
    options = ("--rules", "keys", "--whole-words", "--message", "The kingdom: 去灯塔")
    assert run("king or 灯塔", *options)[:2] == (
        0,
        "true\n  true   or\n    false  king: not found\n    true   灯塔: at characters 14 to 16\n",
    )
    code, _, err = run("not night", "--rules", "keys")
    assert code == 2
    assert err.splitlines()[1] == "^ it would hold where none of its keys is found"


def test_the_program_marks_the_fault_below_wide_characters() -> None:
    code, out, err = run("tb.力量 > 10 且 敏捷 > 3")
    assert (code, out) == (2, "")
    text, mark = err.splitlines()
    assert text == "tb.力量 > 10 且 敏捷 > 3"
    assert mark == " " * 16 + "^ expected tb. and the name of a field"


def test_the_program_prints_json() -> None:
    code, out, _ = run("tb.a >", "--json")
    assert code == 2
    flaw = {"at": 6, "detail": "expected a value"}
    assert json.loads(out) == {"holds": False, "written": None, "tree": None, "flaw": flaw}
    assert json.loads(
        run("tb.a.b = 1", "--rules", "replica", "--table", '{"a.b": 1}', "--json")[1]
    )["holds"]


@pytest.mark.parametrize("arguments", [["--table", "[1]"], ["--rules", "other"]])
def test_the_program_refuses_what_is_no_table_and_no_rules(arguments: list[str]) -> None:
    with pytest.raises(ValidationFailedError):
        run("tb.a = 1", *arguments)
