"""Parsing: JSON bytes to a value, and a value to a model, with faults by JSON pointer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.model.faults import Validation, faults_of
from lorewell.model.structure import MAX_VALUES, SLICE_CHARS, Structure, measure
from lorewell.model.text import MAX_NESTING, Spend, spend_nothing

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

UTF_8_MARK = "\ufeff"  # a byte order mark, decoded

# A JSON string; without a closing quote it extends to the end of the text.
STRING = r'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)'
# Items of a list or members of an object that hold nothing nested, or a short flat collection,
# with the comma after each: they are parsed together.
_FLAT = rf"(?:[^\[\]{{}}\",]++|{STRING})*+"
_ITEM = rf"{_FLAT}(?:\[(?:,?{_FLAT}){{0,100}}+\]|\{{(?:,?{_FLAT}){{0,100}}+\}})?\s*+,"
_RUN = re.compile(rf"(?:{_ITEM}){{1,500}}+", re.DOTALL)
# A document of up to this many values is parsed in one call, which takes some 20 ms.
_FEW_VALUES = 200_000


def refuse_constant(name: str) -> NoReturn:
    """Raise a ValueError for NaN, Infinity or -Infinity, which Python's parser would accept."""
    message = f"{name} is not a JSON number"
    raise ValueError(message)


def parse_integer(digits: str) -> int:
    """Return the integer.

    Raises:
        ValueError: it has more than 4,300 digits, Python's limit.
    """
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
_CLOSING = {"[": "]", "{": "}"}
_NAME_EXPECTED = "Expecting property name enclosed in double quotes"


def nesting(text: str) -> int:
    """Return the nesting depth of the brackets outside of strings, without recursion.

    >>> nesting('{"a": [1, "[[["]}')
    2
    """
    return measure(text, max_values=len(text) + 1).depth


def parse_json(
    data: bytes, *, max_values: int = MAX_VALUES, watch: Callable[[], None] | None = None
) -> Any:  # noqa: ANN401  a JSON document can be anything
    """Return the JSON document in the bytes: UTF-8, with or without a byte order mark.

    Args:
        data: the document.
        max_values: most values and names.
        watch: called between the pieces of a long document; its exceptions pass through.

    Raises:
        MalformedJsonError: the JSON is invalid, holds NaN or a number out of range, or nests
            deeper than 100.
        JsonTooLargeError: it holds more than `max_values` values and names.
    """
    text = decode(data)
    return _read(lambda: _Reader(text, max_values, watch or _ignore).whole())


def decode(data: bytes) -> str:
    """Return the text of a JSON document, without its byte order mark.

    Raises:
        MalformedJsonError: it is not UTF-8.
    """
    try:
        return data.decode().removeprefix(UTF_8_MARK)
    except UnicodeDecodeError as error:  # its offset counts the mark, unlike that of "utf-8-sig"
        message = f"Invalid UTF-8 at byte {error.start}."
        raise MalformedJsonError(message) from error


class Member(NamedTuple):
    """A member of a JSON object: its name, its value, and the span of the value in the text."""

    name: str
    value: Any
    span: tuple[int, int]


def parse_members(text: str, *, max_values: int = MAX_VALUES) -> list[Member]:
    r"""Return the members of a JSON object in order; a repeated name gives several members.

    Raises:
        MalformedJsonError, JsonTooLargeError: as `parse_json`.
        ValidationFailedError: the JSON is not an object.

    >>> parse_members('{"top_p": 0.10, "n": 2}')
    [Member(name='top_p', value=0.1, span=(10, 14)), Member(name='n', value=2, span=(21, 22))]
    """
    reader = _read(lambda: _Reader(text, max_values))
    if text[_past_blanks(text, 0) :][:1] != "{":
        _read(reader.whole)
        raise ValidationFailedError.at(Fault("", "must be an object"))
    return _read(lambda: list(reader.only("{")))


def parse_elements(text: str) -> list[tuple[int, int]]:
    """Return the spans of the elements of a JSON list, in order.

    Raises:
        MalformedJsonError: as `parse_json`, or the JSON is not a list.

    >>> parse_elements("[1, [2, 3] ]")
    [(1, 2), (4, 10)]
    """
    return _read(lambda: [each.span for each in _Reader(text, len(text) + 1).only("[")])


def json_error(error: ValueError) -> MalformedJsonError:
    """Return our error for one of Python's JSON parser, with the line and column if it has them.

    >>> str(json_error(json.JSONDecodeError("Expecting value", '["lamp",]', 8)))
    'Invalid JSON: Expecting value at line 1, column 9.'
    """
    if isinstance(error, json.JSONDecodeError):
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
        return MalformedJsonError(f"Invalid JSON: {where}.")
    return MalformedJsonError(f"Invalid JSON: {error}.")


def _read(read: Callable[[], Result]) -> Result:
    try:
        return read()
    except ValueError as error:  # also a constant, an infinite float, an integer that is too long
        raise json_error(error) from error


def _ignore() -> None:
    """Do nothing."""


class _Reader:
    """Reads a JSON text whose structure is within bounds.

    Python's parser blocks all other threads until it is done. So long lists and objects are read
    item by item, or some items at a time; the parser reads short ones.

    Raises:
        MalformedJsonError: the JSON nests deeper than 100.
        JsonTooLargeError: it holds more than `max_values` values and names.
    """

    def __init__(self, text: str, max_values: int, watch: Callable[[], None] = _ignore) -> None:
        self._text = text
        self._watch = watch
        self._structure: Structure | None = None  # only for long texts
        self._end = 0  # of the list or object whose items were read last
        brackets = text.count("[") + text.count("{")
        signs = brackets + text.count(",") + text.count(":")
        if brackets <= MAX_NESTING and signs < _FEW_VALUES:
            return
        structure = measure(text, max_values=max_values)
        if structure.depth > MAX_NESTING:
            raise MalformedJsonError(f"The JSON nests deeper than {MAX_NESTING} levels.")
        if structure.values > _FEW_VALUES:
            self._structure = structure

    def whole(self) -> Any:  # noqa: ANN401  a JSON document can be anything
        """Return the value of the whole text."""
        if self._structure is None:
            return _DECODER.decode(self._text)
        value, at = self._value(_past_blanks(self._text, 0), 0)
        self._expect_end(at)
        return value

    def only(self, opening: str) -> Iterator[Member]:
        """Yield the items of the list or object that makes up the text."""
        yield from self._items(self._expect(0, opening), opening, 1)
        self._expect_end(self._end)

    def _items(self, at: int, opening: str, depth: int) -> Iterator[Member]:
        """Yield the items of a list or object; `at` is behind its opening bracket."""
        following = self._first(at, opening)
        while following is not None:
            item = self._item(following, opening, depth)
            yield item
            following = self._next(item.span[1], opening)

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins at `at`, below `depth` brackets, and where it ends."""
        opening = self._text[at : at + 1]
        if (
            self._structure is None
            or opening not in _CLOSING
            or not self._structure.is_long(at, depth + 1)
        ):
            return _DECODER.raw_decode(self._text, at)
        return self._long(at + 1, opening, depth + 1), self._end

    def _long(self, at: int, opening: str, depth: int) -> list[Any] | dict[str, Any]:
        """Return a list or an object; `at` is behind its opening bracket."""
        items: list[Any] = []
        members: dict[str, Any] = {}
        following = self._first(at, opening)
        while following is not None:
            self._watch()
            run = _RUN.match(self._text, following, following + SLICE_CHARS)
            if run is not None:
                part = self._run(following, run.end(), opening)
                items += part if opening == "[" else ()
                members |= part if opening == "{" else {}
                following = run.end()
            item = self._item(following, opening, depth)
            if opening == "[":
                items.append(item.value)
            else:
                members[item.name] = item.value
            following = self._next(item.span[1], opening)
        return items if opening == "[" else members

    def _run(self, begin: int, end: int, opening: str) -> Any:  # noqa: ANN401  a list or an object
        """Return several items or members at once, without the comma after the last one."""
        try:
            return _DECODER.decode(f"{opening}{self._text[begin : end - 1]}{_CLOSING[opening]}")
        except json.JSONDecodeError as error:
            raise json.JSONDecodeError(error.msg, self._text, begin + error.pos - 1) from error

    def _item(self, at: int, opening: str, depth: int) -> Member:
        """Return the item or member that begins at `at`."""
        name = ""
        if opening == "{":
            at = _past_blanks(self._text, at)
            if self._text[at : at + 1] != '"':
                raise json.JSONDecodeError(_NAME_EXPECTED, self._text, at)
            name, at = _DECODER.raw_decode(self._text, at)
            at = self._expect(at, ":")
        begin = _past_blanks(self._text, at)
        value, end = self._value(begin, depth)
        return Member(name, value, (begin, end))

    def _first(self, at: int, opening: str) -> int | None:
        """Return where the first item begins; None if the list or object is empty."""
        at = _past_blanks(self._text, at)
        if self._text[at : at + 1] != _CLOSING[opening]:
            return at
        self._end = at + 1
        return None

    def _next(self, at: int, opening: str) -> int | None:
        """Return where the next item begins; None at the end."""
        at = _past_blanks(self._text, at)
        if self._text[at : at + 1] != _CLOSING[opening]:
            return self._expect(at, ",")
        self._end = at + 1
        return None

    def _expect(self, at: int, sign: str) -> int:
        at = _past_blanks(self._text, at)
        if self._text[at : at + 1] != sign:
            raise json.JSONDecodeError(f"Expecting {sign!r} delimiter", self._text, at)
        return at + 1

    def _expect_end(self, at: int) -> None:
        at = _past_blanks(self._text, at)
        if at < len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, at)


def _past_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def parse_model(
    model: type[Model],
    document: object,
    *,
    spend: Spend = spend_nothing,
    watch: Callable[[], None] | None = None,
) -> Model:
    """Return the document as a model.

    Args:
        model: the model's class.
        document: a JSON value.
        spend: called with the number of values of free-form JSON that are checked; it may raise.
        watch: called before each list is validated; what it raises passes through.

    Raises:
        ValidationFailedError: it lists the first 100 faults by JSON pointer and counts the rest.

    >>> from lorewell import BookCreate
    >>> parse_model(BookCreate, {"name": "Harbour", "entries": [{"content": 7}]})
    Traceback (most recent call last):
    lorewell.errors.ValidationFailedError: /entries/0/content: Input should be a valid string
    """
    try:
        return model.model_validate(document, context=Validation(spend, watch or _ignore))
    except ValidationError as error:
        faults, more = faults_of(error)
        raise ValidationFailedError.at(*faults, more=more) from error
