"""The language of conditions: what is written is read back, and nothing makes it fail or run."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, strategies as st

from lorewell.engine.conditions import (
    MAX_CHARS,
    Expression,
    parse_expression,
    parse_key_expression,
    write,
)
from property.condition_texts import conditions, key_expressions, weigh, weigh_random_texts

FEW = 3_000


@given(conditions)
def test_a_written_condition_is_read_back(expression: Expression) -> None:
    text = write(expression)
    assume(len(text) <= MAX_CHARS)
    assert parse_expression(text) == expression


@given(key_expressions)
def test_a_written_key_expression_is_read_back(expression: Expression) -> None:
    text = write(expression)
    assume(len(text) <= MAX_CHARS)
    assert parse_key_expression(text) == expression


@given(st.text(st.characters(), max_size=60))
def test_any_text_is_a_condition_or_has_a_flaw_somewhere(text: str) -> None:
    weigh(text)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_texts_never_fail_and_never_run(seed: int) -> None:
    weigh_random_texts(FEW, seed)
