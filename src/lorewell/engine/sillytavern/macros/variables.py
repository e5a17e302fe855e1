"""Variables: texts and numbers that macros set and read (docs/rules/sillytavern-macros.md §6)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, Literal

import orjson

from lorewell.engine.sillytavern.javascript import (
    as_parsed,
    as_text,
    json_text,
    number_text,
    to_number,
    trim,
)
from lorewell.engine.steps import Steps
from lorewell.model.macro_values import (
    MAX_VARIABLE_CHARS,
    MAX_VARIABLES,
    MAX_VARIABLES_CHARS,
    VariableScope,
)

MAX_LIST: Final = 10_000  # items of a list that a key extends
_LONGEST_NAME: Final = 500
_EXACT: Final = 2**53
_CHARS_PER_STEP: Final = 50
_MAX_NESTING: Final = 100  # of lists and objects in a JSON text
_BRACKETS = re.compile(r"[\[\]{}]")

Value = str | float
Scope = dict[str, Value]


class VariablesFullError(Exception):
    """A variable would exceed the limits of its scope."""


class VariableStore:
    """The variables of one chat and of its user.

    Attributes:
        local: the variables of the chat.
        shared: the global variables.
    """

    def __init__(self, given: Mapping[VariableScope, Mapping[str, Value]], steps: Steps) -> None:
        """Copy the variables of a request; work on them spends steps."""
        self.local = VariableTable(given.get("local", {}), steps)
        self.shared = VariableTable(given.get("global", {}), steps)

    def to_json(self) -> dict[VariableScope, Scope]:
        """Return all variables, in the form of the request."""
        return {"local": dict(self.local.values), "global": dict(self.shared.values)}


def _value_chars(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0


class VariableTable:
    """The variables of one scope.

    Attributes:
        values: by name, in the order in which they were first set.
    """

    def __init__(self, given: Mapping[str, Value], steps: Steps) -> None:
        """Copy the given variables."""
        self._steps = steps
        self.values: Scope = dict(given)
        self._chars = sum(len(name) + _value_chars(value) for name, value in given.items())

    def get(self, name: str) -> str:
        """Return a value as text; "" if there is none."""
        return read(self._stored(name))

    def _stored(self, name: str) -> Value:
        """Return a value; the steps for reading and writing it are spent."""
        stored = self.values.get(name, "")
        self._steps.spend("macros", 1 + _value_chars(stored) // _CHARS_PER_STEP)
        return stored

    def _text(self, name: str) -> str:
        stored = self._stored(name)
        return stored if isinstance(stored, str) else number_text(stored)

    def has(self, name: str) -> bool:
        """Return whether a variable exists; its value may be empty."""
        return name in self.values

    def delete(self, name: str) -> None:
        """Remove a variable if it exists."""
        value = self.values.pop(name, None)
        if value is not None:
            self._chars -= len(name) + _value_chars(value)

    def set(self, name: str, value: Value) -> None:
        """Store a value.

        Raises:
            VariablesFullError: the scope has no room for it.
        """
        is_new = name not in self.values
        grown = _value_chars(value) + len(name) * is_new - _value_chars(self.values.get(name, ""))
        if (
            (is_new and (len(self.values) >= MAX_VARIABLES or len(name) > _LONGEST_NAME))
            or _value_chars(value) > MAX_VARIABLE_CHARS
            or (grown > 0 and self._chars + grown > MAX_VARIABLES_CHARS)
        ):
            raise VariablesFullError
        self._chars += grown
        self.values[name] = value

    def add(self, name: str, value: Value) -> list[object] | None:
        """Add to a variable: an item to a list, a number to a number, or else text to text.

        Returns:
            The list, if it is one now.
        """
        current = self._text(name)
        items = _read_list(current)
        if items is not None:
            items.append(value)
            self.set(name, json_text(items))
            return items
        one = to_number(current)
        other = to_number(value)
        if math.isnan(one) or math.isnan(other):
            self.set(name, self.get(name) + as_text(value))
        else:
            self.set(name, _stored_number(float(one) + float(other)))
        return None

    def step(self, name: str, by: Literal[1, -1]) -> str:
        """Add 1 or -1, and return the new value."""
        self.add(name, by)
        return self.get(name)

    def get_key(self, name: str, key: str) -> str:
        """Return one item of a list, or one member of an object, that a variable holds as JSON."""
        whole = read_json(self._text(name))
        if whole is _NOT_JSON:
            return self.get(name)
        found = _find_key(whole, key)
        if isinstance(found, str):
            return read(found)
        return "" if found is None else json_text(found)

    def set_key(self, name: str, key: str, value: str) -> None:
        """Store one item of a list, or one member of an object, that a variable holds as JSON."""
        index = to_number(key)
        if not self.has(name):
            whole: object = {} if math.isnan(index) else []
        else:
            whole = read_json(self._text(name))
        if isinstance(whole, dict):
            whole[_member(key)] = value
        elif isinstance(whole, list) and index >= 0 and index == math.floor(index):
            if index >= MAX_LIST:
                raise VariablesFullError
            whole.extend([None] * (int(index) + 1 - len(whole)))
            whole[int(index)] = value
        if whole is not _NOT_JSON:
            self.set(name, json_text(whole))


_NOT_JSON: Final = object()


def read(value: Value) -> str:
    """Return a value as a macro reads it: what is a number comes as that number's text.

    >>> read("007"), read("1.50"), read(" 8 "), read("0x10"), read("1 000"), read(" ")
    ('7', '1.5', '8', '16', '1 000', ' ')
    """
    if not isinstance(value, str):
        return number_text(value)
    number = to_number(value) if trim(value) else math.nan
    return value if math.isnan(number) else number_text(number)


def read_json(text: str) -> object:
    """Return the value of a JSON text, numbers as in JavaScript; `_NOT_JSON` if it is none."""
    if _nests_too_deep(text):
        return _NOT_JSON
    try:
        return as_parsed(orjson.loads(text))
    except ValueError:
        return _NOT_JSON


def _nests_too_deep(text: str) -> bool:
    """Return whether lists and objects may nest too deep; brackets inside texts count too."""
    if text.count("[") + text.count("{") <= _MAX_NESTING:
        return False
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > _MAX_NESTING


def _read_list(text: str) -> list[object] | None:
    if not text.lstrip(" \t\r\n").startswith("["):
        return None
    value = read_json(text)
    return value if isinstance(value, list) else None


def _stored_number(number: float) -> Value:
    """Return a number as JSON writes it in JavaScript; JSON has no infinity, its text means it."""
    if not math.isfinite(number):
        return number_text(number)
    return int(number) if number == int(number) and abs(number) < _EXACT else number


def _member(key: str) -> str:
    """Return the name of an object's member: a numeric key is that number."""
    number = to_number(key)
    return key if math.isnan(number) else number_text(number)


def _find_key(whole: object, key: str) -> object:
    if isinstance(whole, dict):
        return whole.get(_member(key))
    index = to_number(key)
    if isinstance(whole, list) and 0 <= index < len(whole) and index == math.floor(index):
        return whole[int(index)]
    return None
