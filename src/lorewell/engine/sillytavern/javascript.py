"""JavaScript's semantics of values: truthiness, numbers, texts, order of members, sorting."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cmp_to_key, lru_cache
from typing import Any, Final, TypeVar

WHITESPACE: Final = (
    "\t\n\x0b\x0c\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
SPACES = re.compile(f"[{WHITESPACE}]+")
MISSING: Final = object()  # JavaScript's undefined; null is None
_EXACT = 2**53
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_LAST_INDEX = 2**32 - 2
_NUMERAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SAME = {str, bool, type(None), float}  # types that `as_parsed` does not change
_ALIKE = {str, bool, type(None), int}  # types that JavaScript writes as Python does
SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_PLAIN_DIGITS, _MOST_ZEROS = 21, 6  # a number with more is written with an exponent

_T = TypeVar("_T")


def as_parsed(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """Return a JSON value with its numbers as in JavaScript: doubles beyond 2**53."""
    match value:
        case bool():
            return value
        case int() if not -_EXACT <= value <= _EXACT:
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        case Mapping():
            return {
                name: member if type(member) in _SAME else as_parsed(member)
                for name, member in value.items()
            }
        case list() | tuple():
            return [as_parsed(member) for member in value]
    return value


def trim(text: str) -> str:
    """Return the text stripped of JavaScript's whitespace, which differs from Python's."""
    return text.strip(WHITESPACE)


def is_true(value: object) -> bool:
    """Return whether a JSON value, or `MISSING`, is truthy: lists and objects always are."""
    if isinstance(value, bool | int | str):
        return bool(value)
    if value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return False
    return isinstance(value, list | tuple | Mapping) or bool(value)


def to_number(value: object) -> float:
    """Return JavaScript's `Number(value)` of a JSON value; NaN if it is not a number.

    >>> to_number("0x10"), to_number(" 7 "), to_number(None), to_number(True)
    (16, 7.0, 0, 1)
    """
    match value:
        case bool() | int():
            return int(value)
        case float():
            return value
        case None:
            return 0
        case str():
            return _parse_number(trim(value))
        case list() if len(value) < 2:  # noqa: PLR2004  its text is that of its one member
            return to_number(value[0]) if value and value[0] is not None else 0
    return math.nan


def _parse_number(text: str) -> float:
    if not text:
        return 0
    if _NUMERAL.fullmatch(text):
        return float(text)
    if text.lstrip("+-") == "Infinity" and len(text) <= len("-Infinity"):
        return -math.inf if text[0] == "-" else math.inf
    try:
        return int(text, 0) if re.fullmatch("0[xXbBoO][0-9a-fA-F]+", text) else math.nan
    except ValueError:
        return math.nan


def number_text(number: float) -> str:
    """Return a number as JavaScript writes it.

    >>> number_text(1.0), number_text(1e21), number_text(-0.0), number_text(1.5e-7)
    ('1', '1e+21', '0', '1.5e-7')
    """
    if isinstance(number, int):
        return str(int(number))
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign, figures, exponent = Decimal(repr(number)).as_tuple()
    digits = "".join(map(str, figures))
    point = len(digits) + int(exponent)
    digits = digits.rstrip("0")
    return "-" * sign + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """Return 0.DIGITS times ten to the power of `point`, as JavaScript writes it."""
    if len(digits) <= point <= _MOST_PLAIN_DIGITS:
        return digits.ljust(point, "0")
    if 0 < point <= _MOST_PLAIN_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if -_MOST_ZEROS < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def as_text(value: object) -> str:
    """Return a JSON value, or `MISSING`, as JavaScript writes it in a template literal."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case None:
            return "null"
        case list():
            return ",".join("" if each is None else as_text(each) for each in value)
    return "undefined" if value is MISSING else "[object Object]"


def is_index(name: str) -> bool:
    """Return whether JavaScript orders a member of that name by number, before all others."""
    return _INDEX.fullmatch(name) is not None and int(name) <= _LAST_INDEX


def in_object_order(names: Iterable[str]) -> list[str]:
    """Return names in JavaScript's order of members, given the order of insertion.

    >>> in_object_order(["b", "10", "9", "01", "a"])
    ['9', '10', 'b', '01', 'a']
    """
    listed = list(names)
    if not any(name[:1].isdigit() for name in listed):  # the usual case
        return listed
    indexes = sorted(filter(is_index, listed), key=int)
    return [*indexes, *(name for name in listed if not is_index(name))]


def _quoted(value: object) -> str:
    quoted = _ENCODER.encode(value)
    if quoted.isascii():
        return quoted
    return SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", quoted)


def _is_alike(value: object) -> bool:
    """Return whether Python's encoder writes a member of an object as JavaScript does."""
    return type(value) in _ALIKE or (type(value) is list and {*map(type, value)} <= _ALIKE)


_name = lru_cache(_quoted)


def json_text(value: object) -> str:
    """Return JavaScript's `JSON.stringify(value)` of a JSON value.

    Source: docs/rules/sillytavern.md §4.
    """
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool) or value is None:
        return as_text(value)
    if isinstance(value, int | float):
        return number_text(value) if math.isfinite(value) else "null"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, Mapping):
        names = in_object_order(value)
        if names == list(value) and all(map(_is_alike, value.values())):
            return _quoted(value)
        members = [f"{_name(name)}:{json_text(value[name])}" for name in names]
        return f"{{{','.join(members)}}}"
    raise TypeError(type(value))


def sort_descending(items: Iterable[_T], number: Callable[[_T], float]) -> list[_T]:
    """Return the items sorted by a number, highest first; stable, and NaN equals everything.

    With NaN among the numbers this is not a valid ordering. V8 and Python use the same sorting
    algorithm, so the result is the same nevertheless.
    """
    listed = list(items)
    if not any(math.isnan(number(item)) for item in listed):
        return sorted(listed, key=lambda item: -number(item))

    def compare(one: _T, other: _T) -> int:
        difference = number(other) - number(one)
        if difference > 0:
            return 1
        return -1 if difference < 0 else 0

    return sorted(listed, key=cmp_to_key(compare))
