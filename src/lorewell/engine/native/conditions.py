"""Evaluates conditions in the caller's state (docs/rules/native.md §3.3)."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.engine.state import AbsentValue, look_up
from lorewell.model import Condition


def json_equal(left: object, right: object) -> bool:
    """Return whether two JSON values are equal: true is not 1, 1 is 1.0, order is ignored."""
    match left, right:
        case (bool(), _) | (_, bool()):
            return left is right
        case (int() | float(), int() | float()):
            return left == right
        case (list(), list()):
            return len(left) == len(right) and all(map(json_equal, left, right))
        case (dict(), dict()):
            return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
        case _:
            return type(left) is type(right) and left == right


def holds(condition: Condition, state: Mapping[str, object]) -> bool:
    """Return whether a condition holds; `ne` negates `eq`, so it holds for a missing path."""
    found = look_up(state, condition.path)
    present = found is not AbsentValue.ABSENT
    match condition.op:
        case "exists":
            return present is condition.value
        case "eq":
            return present and json_equal(found, condition.value)
        case "ne":
            return not (present and json_equal(found, condition.value))
        case _:  # in
            return present and any(json_equal(found, choice) for choice in condition.value)
