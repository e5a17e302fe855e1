"""JSON is counted before it is parsed; time is in proportion to the text, and memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from lorewell.errors import JsonTooLargeError, MalformedJsonError, ValidationFailedError
from lorewell.model import parse, structure
from lorewell.model.parse import nesting, parse_elements, parse_json, parse_members
from lorewell.model.structure import measure
from measured import STATUS, forked

MANY = 2_500
SLICE_CHARS = 8_192


@pytest.fixture(autouse=True)
def _parsed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make so many values more than are parsed in one go."""
    monkeypatch.setattr(parse, "_FEW_VALUES", MANY - 500)
    monkeypatch.setattr(structure, "SLICE_CHARS", SLICE_CHARS)


@pytest.mark.parametrize(
    ("text", "values", "depth"),
    [
        ("", 1, 0),
        ("7", 1, 0),
        ("[1, 2]", 3, 1),
        ('{"a": {"b": []}}', 6, 3),
        (r'["\"[,", "\\", "[,:{"]', 4, 1),
        ('["[,', 2, 1),
        ("]]][", 2, 0),
    ],
)
def test_values_and_depth_are_those_outside_of_strings(text: str, values: int, depth: int) -> None:
    found = measure(text, max_values=100)
    assert (found.values, found.depth, nesting(text)) == (values, depth, depth)


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("sign", ['\\"', "\\\\", "[", ",", "\U0001f600"])
def test_a_slice_may_end_within_a_string(sign: str, shift: int) -> None:
    text = f'["{"x" * shift}{sign * SLICE_CHARS}", {{"a": [1]}}]'
    found = measure(text, max_values=100)
    assert (found.values, found.depth) == (6, 3)
    assert parse_json(text.encode())[1] == {"a": [1]}


def test_more_values_than_the_limit_are_refused() -> None:
    assert parse_json(b"[%s1]" % (b"1," * MANY), max_values=MANY + 2)[:2] == [1, 1]
    for text in (b"[%s1]" % (b"1," * MANY), b"[%s1]" % (b"[]," * MANY)):
        with pytest.raises(JsonTooLargeError, match=r"more than 2,501 values and names") as caught:
            parse_json(text, max_values=MANY + 1)
        assert caught.value.details == {"limit_values": MANY + 1}
    with pytest.raises(JsonTooLargeError):
        parse_members('{"a": [' + "[]," * MANY + "1]}", max_values=MANY)


def test_what_stands_in_strings_does_not_count() -> None:
    assert parse_json(b'["%s"]' % (b"[,:{" * MANY), max_values=10) == ["[,:{" * MANY]


def test_nesting_is_bounded_in_long_texts_too() -> None:
    long = b"[" * 101 + b"[]," * MANY + b"1" + b"]" * 101
    with pytest.raises(MalformedJsonError, match="nests deeper than 100"):
        parse_json(long)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[%s1] 2", "Extra data at line 1, column"),
        ("[%s]", "Expecting value at line 1, column"),
        ("[%s1", "Expecting ',' delimiter at line 1, column"),
        ("[%s,1]", "Expecting value at line 1, column"),
        ("[%sNaN]", "NaN is not a JSON number"),
        ('{"a": [%s1], 7: 1}', "Expecting property name enclosed in double quotes"),
        ('{"a": [%s1], "b" 1}', "Expecting ':' delimiter"),
    ],
)
def test_faults_of_long_texts_are_told_as_those_of_short_ones(text: str, why: str) -> None:
    with pytest.raises(MalformedJsonError, match=why):
        parse_json((text % ("1," * 2 * MANY)).encode())


def test_members_and_elements_of_long_texts_have_their_places() -> None:
    inner = "[" + "1," * MANY + "1]"
    (member,) = parse_members(f' {{"a": {inner} }}')
    assert (member.name, len(member.value), member.span) == ("a", MANY + 1, (7, 7 + len(inner)))
    assert parse_elements(f"[{inner}, {{}}]") == [
        (1, len(inner) + 1),
        (len(inner) + 3, len(inner) + 5),
    ]
    assert parse_members(" {} ") == []
    assert parse_elements("[]") == []
    with pytest.raises(ValidationFailedError, match="must be an object"):
        parse_members(inner)


HOSTILE: Mapping[str, Callable[[int], str]] = {
    "lists": lambda n: "[" + "[]," * n + "1]",
    "objects": lambda n: "[" + '{"a":1},' * n + "1]",
    "members": lambda n: "{" + ",".join(f'"{i}":0' for i in range(n)) + "}",
    "nested": lambda n: "[" + ("[" * 90 + "]" * 90 + ",") * (n // 90) + "1]",
    "empty texts": lambda n: "[" + '"",' * n + '""]',
    "quotes alone": lambda n: "[" + "[]," * MANY + '"' * n,
    "escapes": lambda n: "[" + "[]," * MANY + '"' + '\\"' * n + '"]',
    "backslashes": lambda n: "[" + "[]," * MANY + '"' + "\\\\" * n + '"]',
    "open brackets": lambda n: "[" * n,
    "open texts": lambda n: '["' * n,
    "commas": lambda n: "," * n,
    "blanks": lambda n: "[" + "[]," * MANY + " " * n + "1]",
    "digits": lambda n: "[" + "1" * n + "]",
    "texts with brackets": lambda n: "[" + '"[{,",' * n + "1]",
}


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux reports memory")
@pytest.mark.parametrize("shape", HOSTILE)
def test_four_times_the_text_takes_about_four_times_as_long(shape: str) -> None:
    def cost_s(count: int) -> float:
        data = HOSTILE[shape](count).encode()
        found = forked(lambda: parse_json(data, max_values=1_000_000))
        assert found["grown_bytes"] < 30_000_000
        return float(found["cpu_s"])

    few = min(cost_s(10_000) for _ in range(2))
    assert min(cost_s(40_000) for _ in range(2)) < 10 * few + 0.02
