"""Evaluates conditions. Source: docs/rules/replica.md §4.3."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Final, assert_never

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.syntax import (
    And,
    Comparison,
    Expression,
    Leaf,
    Not,
    Operator,
    Or,
    Word,
    leaves,
)
from lorewell.engine.state import AbsentValue, look_up
from lorewell.engine.steps import Steps, weigh

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_EXACT: Final = 2**53
_MAX_SHOWN: Final = 60  # characters of a value

_ORDERS: Final = {">": gt, "<": lt, ">=": ge, "<=": le}

# Looks up the value of a field; `AbsentValue.ABSENT` if there is none.
Table = Callable[[str], object]


def in_table(values: Mapping[str, object]) -> Table:
    """Look fields up in a flat table: names are exact, and dots have no meaning."""
    return lambda field: values.get(field, AbsentValue.ABSENT)


def in_state(state: Mapping[str, object]) -> Table:
    """Look fields up in a state: a member of the exact name, else a path with dots.

    >>> look = in_state({"hero": {"力量": 15}, "a.b": 1})
    >>> look("hero.力量"), look("a.b")
    (15, 1)
    """
    return lambda field: state[field] if field in state else look_up(state, field)


def counting(table: Table, steps: Steps) -> Table:
    """Return a table that spends steps on each lookup, in proportion to the size of the value."""
    weights: dict[str, int] = {}

    def look(field: str) -> object:
        value = table(field)
        weight = weights.get(field)
        if weight is None:
            weight = weights[field] = 1 + weigh(value)
            steps.spend("conditions", weight)
        steps.spend("conditions", weight)
        return value

    return look


def holds(expression: Expression, truth: Callable[[Leaf], bool]) -> bool:
    """Return whether an expression holds, given the truth of its leaves."""
    match expression:
        case Comparison() | Word():
            return truth(expression)
        case Not(part):
            return not holds(part, truth)
        case And(parts):
            return all(holds(part, truth) for part in parts)
        case Or(parts):
            return any(holds(part, truth) for part in parts)
        case _:
            assert_never(expression)


def is_true(expression: Expression, table: Table) -> bool:
    """Return whether a condition holds."""
    return holds(
        expression,
        lambda leaf: (
            isinstance(leaf, Comparison) and compare(table(leaf.field), leaf.operator, leaf.value)
        ),
    )


def explain_false(parsed: Expression | Flaw, table: Table) -> str | None:
    """Return why a condition does not hold: the values of its fields, or its parse error.

    None if it holds.

    >>> explain_false(Comparison("力量", ">", "20"), in_table({"力量": 15}))
    '力量 is 15'
    """
    if isinstance(parsed, Flaw):
        return f"at character {parsed.at}, {parsed.detail}"
    return None if is_true(parsed, table) else describe_fields(parsed, table)


def describe_fields(expression: Expression, table: Table) -> str:
    """Return the fields of an expression with their values, for a person.

    >>> describe_fields(Comparison("力量", ">", "20"), in_table({"力量": 15}))
    '力量 is 15'
    """
    fields = dict.fromkeys(
        leaf.field for leaf, _ in leaves(expression) if isinstance(leaf, Comparison)
    )
    return ", ".join(f"{field} is {_shown(table(field))}" for field in fields)


def compare(found: object, operator: Operator, value: str) -> bool:
    """Return whether the comparison of a field's value with a value holds; false if missing."""
    if found is None or found is AbsentValue.ABSENT:
        return False
    match operator:
        case "包括":
            if isinstance(found, list | tuple):
                return any(item is not None and _equal(item, value) for item in found)
            return value in as_text(found)
        case "=" | "==":
            return _equal(found, value)
        case "!=":
            return not _equal(found, value)
        case _:
            left, right = _number(found), _number(value)
            return left is not None and right is not None and _ORDERS[operator](left, right)


def is_number(text: str) -> bool:
    """Return whether a text is a number: optional sign, digits, optional fraction."""
    return _NUMBER.fullmatch(text) is not None


def as_text(value: object) -> str:
    """Return a value as text: numbers in decimal, `true` or `false`, lists and objects as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < _EXACT:
            return str(int(value))
        case int():
            return str(Decimal(value))  # str(int) refuses more than 4,300 digits
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _equal(found: object, value: str) -> bool:
    left, right = _number(found), _number(value)
    if left is None or right is None:
        return as_text(found) == value
    return left == right


def _number(value: object) -> Decimal | None:
    """Return a number, or a text that is one, as a decimal; None for other values."""
    match value:
        case bool():
            return None
        case int():
            return Decimal(value)
        case float():
            return Decimal(repr(value)) if math.isfinite(value) else None
        case str() if is_number(value):
            return Decimal(value)
        case _:
            return None


def _shown(value: object) -> str:
    if value is None or value is AbsentValue.ABSENT:
        return "missing"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else as_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
