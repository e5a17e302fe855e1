"""From JSON bytes to a value, and from a value to a model, with every fault named by its place."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.model.text import MAX_NESTING, Spend, pointer

Model = TypeVar("Model", bound=BaseModel)
Given = TypeVar("Given")

UTF_8_MARK = "\ufeff"  # what a byte order mark in UTF-8 is as text

# Pydantic speaks of tuples and items where a person wrote lists and text.
_SENTENCES = {
    "contract": "{detail}",
    "extra_forbidden": "there is no such field",
    "missing": "must be given",
    "too_long": "must hold at most {max_length}, holds {actual_length}",
    "too_short": "must hold at least {min_length}, holds {actual_length}",
    "tuple_type": "must be a list",
}


# What pydantic puts into a path that is no step of the document: the mark of a member's name that
# is at fault itself, and the tags of model/preview.py.
_NO_STEPS = frozenset({"[key]", "[stored]", "[inline]", "[changed]"})

# A string of JSON, or what looks like one: without a closing quote it goes on to the end.
STRING = r'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)'
_STRING = re.compile(STRING, re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]++")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one deeper, one less


def refuse_constant(name: str) -> NoReturn:
    """Raise a ValueError for NaN, Infinity or -Infinity, which Python's reader would take."""
    message = f"{name} is no JSON number"
    raise ValueError(message)


def parse_integer(digits: str) -> int:
    """Return the integer; beyond Python's limit of 4,300 digits, raise a readable ValueError."""
    try:
        return int(digits)
    except ValueError as error:
        message = f"a number of {len(digits):,} digits is too large"
        raise ValueError(message) from error


def _finite(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        message = f"the number {digits} is too large"
        raise ValueError(message)
    return number


_DECODER = json.JSONDecoder(
    parse_constant=refuse_constant, parse_float=_finite, parse_int=parse_integer
)
_BLANKS = re.compile(r"[ \t\n\r]*")


def nesting(text: str) -> int:
    """Return how deep the brackets outside of strings nest, without recursion.

    >>> nesting('{"a": [1, "[[["]}')
    2
    """
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    steps = array("b", brackets.encode().translate(_STEPS))
    return max(accumulate(steps, initial=0))


def parse_json(data: bytes) -> Any:  # noqa: ANN401  a JSON document can be anything
    """Return the JSON document in the bytes: UTF-8, with or without a byte order mark.

    Raises:
        MalformedJsonError: it is no JSON, holds NaN or a number out of range, or nests deeper
            than 100.
    """
    return _read(decode(data), _DECODER.decode)


def decode(data: bytes) -> str:
    """Return the text of a JSON document, without its byte order mark.

    Raises:
        MalformedJsonError: it is not UTF-8.
    """
    try:
        return data.decode().removeprefix(UTF_8_MARK)
    except UnicodeDecodeError as error:  # its place counts the mark, as "utf-8-sig" would not
        message = f"The text is not UTF-8 (byte {error.start})."
        raise MalformedJsonError(message) from error


def _read(text: str, read: Callable[[str], Given]) -> Given:
    too_deep = f"The JSON nests deeper than {MAX_NESTING}."
    # Counting brackets in Python is slow: it is done only where there are enough to matter.
    if text.count("[") + text.count("{") > MAX_NESTING and nesting(text) > MAX_NESTING:
        raise MalformedJsonError(too_deep)
    try:
        return read(text)
    except json.JSONDecodeError as error:
        message = f"The text is no JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        raise MalformedJsonError(message) from error
    except ValueError as error:  # a constant, an infinite float, an integer of over 4,300 digits
        message = f"The text is no JSON: {error}."
        raise MalformedJsonError(message) from error


class Member(NamedTuple):
    """A member of a JSON object: its name, its value, and where the value stands in the text."""

    name: str
    value: Any
    span: tuple[int, int]


def parse_members(text: str) -> list[Member]:
    r"""Return the members of the JSON object that the text is, in order, also those named twice.

    Raises:
        MalformedJsonError: as `parse_json`.
        ValidationFailedError: it is no object.

    >>> parse_members('{"top_p": 0.10, "n": 2}')
    [Member(name='top_p', value=0.1, span=(10, 14)), Member(name='n', value=2, span=(21, 22))]
    """
    if text[_past_blanks(text, 0) :][:1] != "{":
        _read(text, _DECODER.decode)
        raise ValidationFailedError.at(Fault("", "must be an object"))
    return _read(text, lambda given: list(_items(given, "{", "}")))


def parse_elements(text: str) -> list[tuple[int, int]]:
    """Return where the elements of the JSON list that the text is stand in it, in order.

    Raises:
        MalformedJsonError: as `parse_json`, or it is no list.

    >>> parse_elements("[1, [2, 3] ]")
    [(1, 2), (4, 10)]
    """
    return _read(text, lambda given: [each.span for each in _items(given, "[", "]")])


def _items(text: str, opening: str, closing: str) -> Iterator[Member]:
    """Yield what a list or an object holds, each with its place, up to the end of the text."""
    at = _expect(text, 0, opening)
    at = _past_blanks(text, at)
    if text[at : at + 1] == closing:
        _expect_end(text, at + 1)
        return
    while True:
        name = ""
        if opening == "{":
            at = _past_blanks(text, at)
            if text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expecting property name", text, at)
            name, at = _DECODER.raw_decode(text, at)
            at = _expect(text, at, ":")
        begin = _past_blanks(text, at)
        value, at = _DECODER.raw_decode(text, begin)
        yield Member(name, value, (begin, at))
        at = _past_blanks(text, at)
        if text[at : at + 1] == closing:
            _expect_end(text, at + 1)
            return
        at = _expect(text, at, ",")


def _past_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, sign: str) -> int:
    at = _past_blanks(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r}", text, at)
    return at + 1


def _expect_end(text: str, at: int) -> None:
    at = _past_blanks(text, at)
    if at < len(text):
        raise json.JSONDecodeError("Extra data", text, at)


def parse_model(model: type[Model], document: object, *, spend: Spend | None = None) -> Model:
    """Return the document as a model.

    Args:
        model: its class.
        document: JSON.
        spend: called with the number of values of free-form JSON that are looked at; it may raise.

    Raises:
        ValidationFailedError: with every fault, each with its JSON pointer and the bound it broke.

    >>> from lorewell import BookCreate
    >>> parse_model(BookCreate, {"name": "Harbour", "entries": [{"content": 7}]})
    Traceback (most recent call last):
    lorewell.errors.ValidationFailedError: /entries/0/content: Input should be a valid string
    """
    try:
        return model.model_validate(document, context=spend)
    except ValidationError as error:
        faults = faults_of(error)
        raise ValidationFailedError.at(*faults) from error


def faults_of(error: ValidationError) -> tuple[Fault, ...]:
    """Return the faults of a pydantic error, in document order."""
    faults = []
    items = error.errors(include_url=False, include_input=False)
    for item in items:
        if item["type"] == "too_short" and any(_is_below(other, item) for other in items):
            continue  # members at fault are not counted: the list itself may be long enough
        steps = [step for step in item["loc"] if step not in _NO_STEPS]
        below = str(item.get("ctx", {}).get("at", ""))
        template = _SENTENCES.get(item["type"])
        detail = template.format_map(item.get("ctx", {})) if template else item["msg"]
        faults.append(Fault(pointer(*steps) + below, detail))
    return tuple(faults)


def _is_below(item: ErrorDetails, other: ErrorDetails) -> bool:
    depth = len(other["loc"])
    return len(item["loc"]) > depth and item["loc"][:depth] == other["loc"]
