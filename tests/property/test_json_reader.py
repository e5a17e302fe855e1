"""JSON that is read in pieces is what Python's own reader makes of it, faults included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lorewell.errors import MalformedJsonError
from lorewell.model import parse, structure
from lorewell.model.parse import nesting, parse_elements, parse_json, parse_members
from lorewell.model.structure import measure

TEXTS = st.text(st.sampled_from('ab"\\,:[]{}\n\u00e9\U0001f600'), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | TEXTS | NUMBERS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=8),
    max_leaves=40,
)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make documents of a few characters long ones."""
    with monkeypatch.context() as patch:
        patch.setattr(parse, "_FEW_VALUES", 0)
        patch.setattr(structure, "SLICE_CHARS", 5)
        yield


def written(value: object, *, spaced: bool, ascii_only: bool) -> str:
    separators = (" ,\n ", " : ") if spaced else (",", ":")
    return json.dumps(value, separators=separators, ensure_ascii=ascii_only)


def count(value: Any) -> int:
    """Return how many values and names there are."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, items), default=0)
    return 0


@given(value=VALUES, spaced=st.booleans(), ascii_only=st.booleans())
def test_what_is_read_in_pieces_is_the_value(value: Any, *, spaced: bool, ascii_only: bool) -> None:
    text = written(value, spaced=spaced, ascii_only=ascii_only)
    found = parse_json(text.encode())
    assert found == value
    assert json.dumps(found) == json.dumps(value)  # the order too, and 1 is no 1.0
    assert nesting(text) == depth(value)
    assert count(value) <= measure(text, max_values=len(text) + 1).values <= 2 * count(value)


@given(
    value=VALUES, spaced=st.booleans(), at=st.integers(0, 400), sign=st.sampled_from('",:[]{}\x01 ')
)
def test_a_fault_is_the_one_that_pythons_reader_finds(
    value: Any, *, spaced: bool, at: int, sign: str
) -> None:
    text = written(value, spaced=spaced, ascii_only=False)
    place = at % (len(text) + 1)
    broken = text[:place] + sign + text[place + at % 2 :]
    assert outcome(lambda: parse_json(broken.encode())) == outcome(lambda: json.loads(broken))


def outcome(read: Callable[[], Any]) -> str:
    try:
        return json.dumps(read())
    except json.JSONDecodeError as fault:
        return f"Invalid JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}."
    except MalformedJsonError as fault:
        return str(fault)


@given(members=st.lists(st.tuples(TEXTS, VALUES), max_size=8), spaced=st.booleans())
def test_members_have_their_places(members: list[tuple[str, Any]], *, spaced: bool) -> None:
    parts = [f"{json.dumps(n)}:{written(v, spaced=spaced, ascii_only=True)}" for n, v in members]
    text = f" {{{' , '.join(parts)} }} "
    found = parse_members(text)
    assert [(each.name, each.value) for each in found] == members
    assert [json.loads(text[slice(*each.span)]) for each in found] == [v for _, v in members]


@given(values=st.lists(VALUES, max_size=8), spaced=st.booleans())
def test_elements_have_their_places(values: list[Any], *, spaced: bool) -> None:
    text = written(values, spaced=spaced, ascii_only=True)
    assert [json.loads(text[slice(*span)]) for span in parse_elements(text)] == values
