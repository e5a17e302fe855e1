"""JavaScript's idea of values, against what an engine of it answers."""

from __future__ import annotations

import math

import pytest

from lorewell.engine.sillytavern import javascript as js
from lorewell.engine.sillytavern.hashing import cyrb53, hash_all
from lorewell.engine.sillytavern.keys import find_plain, stands_alone
from lorewell.engine.steps import Steps
from macro_texts import expand


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("", 0),
        ("\ufeff 7 ", 7),
        ("1e3", 1000),
        (".5", 0.5),
        ("5.", 5),
        ("-3", -3),
        ("0x1F", 31),
        ("0b11", 3),
        ("-Infinity", -math.inf),
        ("Infinity", math.inf),
        (True, 1),
        (None, 0),
        ([], 0),
        ([None], 0),
        (["8"], 8),
        (2.5, 2.5),
    ],
)
def test_number_of_a_value(value: object, number: float) -> None:
    assert js.to_number(value) == number


@pytest.mark.parametrize(
    "value", ["x", "1_000", "٣", "0b12", "--Infinity", "1\x852", [1, 2], {}, js.MISSING]
)
def test_value_that_is_no_number(value: object) -> None:
    assert math.isnan(js.to_number(value))


@pytest.mark.parametrize("value", ["", 0, 0.0, math.nan, None, False, js.MISSING])
def test_value_that_is_false(value: object) -> None:
    assert not js.is_true(value)


@pytest.mark.parametrize("value", ["0", [], {}, 0.1, True])
def test_value_that_is_true(value: object) -> None:
    assert js.is_true(value)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (100, "100"),
        (2**53, "9007199254740992"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.1, "0.1"),
        (12.5, "12.5"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.25e-9, "-1.25e-9"),
        (-0.0, "0"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_text_of_a_number(number: float, text: str) -> None:
    assert js.number_text(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("灯", "灯"),
        (True, "true"),
        (1.0, "1"),
        (None, "null"),
        ([1, None, "x"], "1,,x"),
        ({}, "[object Object]"),
        (js.MISSING, "undefined"),
    ],
)
def test_text_of_a_value(value: object, text: str) -> None:
    assert js.as_text(value) == text


def test_numbers_are_as_exact_as_in_javascript() -> None:
    given = {"a": [2**53 + 1, -(10**400), 10**400, 2**53], "b": True}
    parsed = js.as_parsed(given)
    assert parsed == {"a": [2.0**53, -math.inf, math.inf, 2**53], "b": True}
    assert js.json_text(parsed) == '{"a":[9007199254740992,null,null,9007199254740992],"b":true}'


def test_json_text_of_what_is_no_json() -> None:
    assert js.json_text([math.inf, '\b\f\n\r\t\x00\x1e\\"']) == (
        '[null,"\\b\\f\\n\\r\\t\\u0000\\u001e\\\\\\""]'
    )
    with pytest.raises(TypeError):
        js.json_text({1, 2})


def test_object_order_puts_indexes_first() -> None:
    names = ["z", "4294967295", "4294967294", "1", "01", "", "٣"]
    assert js.in_object_order(names) == ["1", "4294967294", "z", "4294967295", "01", "", "٣"]


def test_whitespace_differs_from_that_of_python() -> None:
    assert js.trim("\ufeff\u3000 x\x85") == "x\x85"
    assert js.trim("\x1cx\x1f") == "\x1cx\x1f"


def test_hash_of_code_units() -> None:
    texts = ["", "灯", "😀", "\ud800", "x" * 700]
    assert hash_all(texts) == [cyrb53(text) for text in texts]
    assert cyrb53("") == 3338908027751811
    assert hash_all([]) == []


def test_plain_key_is_looked_for_until_it_stands_alone() -> None:
    assert find_plain("lamps лlamp", "lamp", stands_alone, Steps()) == 7
    assert find_plain("lamps", "lamp", stands_alone, Steps()) == -1
    assert find_plain("lamps", "lamp", None, Steps()) == 0


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{USER}} and <bot>", "塔 and Sera"),
        ("{{description}}!", "Sera of 塔!"),
        ("{{ char }} {{unknown}}", "{{ char }} {{unknown}}"),
        ("a{{newline}}\n{{trim}}\r\nb", "ab"),
        ("{{reverse:ab{{user}}😀}}", "😀塔ba"),
        ("x{{noop}}{{// any\nthing }}y", "xy"),
    ],
)
def test_macros(text: str, expanded: str) -> None:
    values = {"user": "塔", "char": "Sera", "description": "{{char}} of <USER>"}
    assert expand(text, "old", macros=values) == expanded
