"""Variables in their short form, such as `{{.name += 1}}` (docs/rules/sillytavern-macros.md §3)."""

from __future__ import annotations

import math
from collections.abc import Callable

from lorewell.engine.sillytavern.javascript import number_text, to_number, trim
from lorewell.engine.sillytavern.macros.variables import VariableTable

_FALSE = frozenset({"", "0", "off", "false"})


def is_false(text: str) -> bool:
    """Return whether a text counts as false in a condition."""
    return trim(text).lower() in _FALSE


def apply(variables: VariableTable, name: str, operator: str, value: Callable[[], str]) -> str:
    """Apply an operator to a variable, and return the result.

    Args:
        variables: the variables of its scope.
        name: its name.
        operator: the operator; "" reads the variable.
        value: expands the text after the operator; not called where that is not used.

    Raises:
        VariablesFullError: the scope has no room for a new value.
    """
    match operator:
        case "":
            return variables.get(name)
        case "++" | "--":
            return variables.step(name, 1 if operator == "++" else -1)
        case "=":
            variables.set(name, value())
        case "+=":
            variables.add(name, value())
        case "-=":
            number = to_number(value())
            if not math.isnan(number):
                variables.add(name, number_text(-number))
        case "||" | "||=" | "??" | "??=":
            return _or(variables, name, operator, value)
        case _:
            return str(_compare(variables.get(name), operator, value())).lower()
    return ""


def _or(variables: VariableTable, name: str, operator: str, value: Callable[[], str]) -> str:
    """Return the variable's value, or another one if it is false or missing."""
    is_used = is_false(variables.get(name)) if operator[0] == "|" else not variables.has(name)
    if not is_used:
        return variables.get(name)
    other = value()
    if operator.endswith("="):
        variables.set(name, other)
    return other


def _compare(one: str, operator: str, other: str) -> bool:
    if operator == "==":
        return one == other
    if operator == "!=":
        return one != other
    first, second = to_number(one), to_number(other)
    match operator:
        case ">":
            return first > second
        case ">=":
            return first >= second
        case "<":
            return first < second
        case _:
            return first <= second
