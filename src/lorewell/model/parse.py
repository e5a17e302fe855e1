"""From JSON bytes to a value, and from a value to a model, with faults named by their places."""

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
Given = TypeVar("Given")

UTF_8_MARK = "\ufeff"  # what a byte order mark in UTF-8 is as text

# A string of JSON, or what looks like one: without a closing quote it goes on to the end.
STRING = r'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)'
# Items of a list or members of an object with the comma after each, as far as they hold nothing
# nested or little that is flat: they are parsed together.
_FLAT = rf"(?:[^\[\]{{}}\",]++|{STRING})*+"
_ITEM = rf"{_FLAT}(?:\[(?:,?{_FLAT}){{0,100}}+\]|\{{(?:,?{_FLAT}){{0,100}}+\}})?\s*+,"
_RUN = re.compile(rf"(?:{_ITEM}){{1,500}}+", re.DOTALL)
# So many are parsed in one go, which takes some 20 ms.
_FEW_VALUES = 200_000


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
_CLOSING = {"[": "]", "{": "}"}
_NO_NAME = "Expecting property name enclosed in double quotes"


def nesting(text: str) -> int:
    """Return how deep the brackets outside of strings nest, without recursion.

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
        max_values: how many values and names it may hold.
        watch: called between the pieces of a long document; what it raises passes through.

    Raises:
        MalformedJsonError: it is no JSON, holds NaN or a number out of range, or nests deeper
            than 100.
        JsonTooLargeError: it holds more than so many values and names.
    """
    text = decode(data)
    return _refusing(lambda: _Reader(text, max_values, watch or _go_on).whole())


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


class Member(NamedTuple):
    """A member of a JSON object: its name, its value, and where the value stands in the text."""

    name: str
    value: Any
    span: tuple[int, int]


def parse_members(text: str, *, max_values: int = MAX_VALUES) -> list[Member]:
    r"""Return the members of the JSON object that the text is, in order, also those named twice.

    Raises:
        MalformedJsonError, JsonTooLargeError: as `parse_json`.
        ValidationFailedError: it is no object.

    >>> parse_members('{"top_p": 0.10, "n": 2}')
    [Member(name='top_p', value=0.1, span=(10, 14)), Member(name='n', value=2, span=(21, 22))]
    """
    reader = _refusing(lambda: _Reader(text, max_values))
    if text[_past_blanks(text, 0) :][:1] != "{":
        _refusing(reader.whole)
        raise ValidationFailedError.at(Fault("", "must be an object"))
    return _refusing(lambda: list(reader.only("{")))


def parse_elements(text: str) -> list[tuple[int, int]]:
    """Return where the elements of the JSON list that the text is stand in it, in order.

    Raises:
        MalformedJsonError: as `parse_json`, or it is no list.

    >>> parse_elements("[1, [2, 3] ]")
    [(1, 2), (4, 10)]
    """
    return _refusing(lambda: [each.span for each in _Reader(text, len(text) + 1).only("[")])


def _refusing(read: Callable[[], Given]) -> Given:
    try:
        return read()
    except json.JSONDecodeError as error:
        message = f"The text is no JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        raise MalformedJsonError(message) from error
    except ValueError as error:  # a constant, an infinite float, an integer of over 4,300 digits
        message = f"The text is no JSON: {error}."
        raise MalformedJsonError(message) from error


def _go_on() -> None:
    """Let a reader go on that nobody watches."""


class _Reader:
    """Reads a JSON text whose structure is within bounds.

    Python's parser lets nothing else run until it is done. So lists and objects that are long are
    read item by item, or some items at a time; it parses what is short.

    Raises:
        MalformedJsonError: it nests deeper than 100.
        JsonTooLargeError: it holds more than so many values and names.
    """

    def __init__(self, text: str, max_values: int, watch: Callable[[], None] = _go_on) -> None:
        self._text = text
        self._watch = watch
        self._structure: Structure | None = None  # of a text that has long parts
        self._end = 0  # of the list or object whose items were read last
        brackets = text.count("[") + text.count("{")
        signs = brackets + text.count(",") + text.count(":")
        if brackets <= MAX_NESTING and signs < _FEW_VALUES:
            return
        structure = measure(text, max_values=max_values)
        if structure.depth > MAX_NESTING:
            raise MalformedJsonError(f"The JSON nests deeper than {MAX_NESTING}.")
        if structure.values > _FEW_VALUES:
            self._structure = structure

    def whole(self) -> Any:  # noqa: ANN401  a JSON document can be anything
        """Return what the text is."""
        if self._structure is None:
            return _DECODER.decode(self._text)
        value, at = self._value(_past_blanks(self._text, 0), 0)
        self._expect_end(at)
        return value

    def only(self, opening: str) -> Iterator[Member]:
        """Yield what the list or object that the text is holds, each with its place."""
        yield from self._items(self._expect(0, opening), opening, 1)
        self._expect_end(self._end)

    def _items(self, at: int, opening: str, depth: int) -> Iterator[Member]:
        """Yield what a list or an object holds, one by one, from behind its opening bracket."""
        following = self._first(at, opening)
        while following is not None:
            item = self._item(following, opening, depth)
            yield item
            following = self._next(item.span[1], opening)

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins here, inside of so many brackets, and where it ends."""
        opening = self._text[at : at + 1]
        if (
            self._structure is None
            or opening not in _CLOSING
            or not self._structure.is_long(at, depth + 1)
        ):
            return _DECODER.raw_decode(self._text, at)
        return self._long(at + 1, opening, depth + 1), self._end

    def _long(self, at: int, opening: str, depth: int) -> list[Any] | dict[str, Any]:
        """Return a list or an object, from behind its opening bracket."""
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
        """Return some items or members at once; the comma after the last one is left out."""
        try:
            return _DECODER.decode(f"{opening}{self._text[begin : end - 1]}{_CLOSING[opening]}")
        except json.JSONDecodeError as error:
            raise json.JSONDecodeError(error.msg, self._text, begin + error.pos - 1) from error

    def _item(self, at: int, opening: str, depth: int) -> Member:
        """Return the item or member that begins here."""
        name = ""
        if opening == "{":
            at = _past_blanks(self._text, at)
            if self._text[at : at + 1] != '"':
                raise json.JSONDecodeError(_NO_NAME, self._text, at)
            name, at = _DECODER.raw_decode(self._text, at)
            at = self._expect(at, ":")
        begin = _past_blanks(self._text, at)
        value, end = self._value(begin, depth)
        return Member(name, value, (begin, end))

    def _first(self, at: int, opening: str) -> int | None:
        """Return where the first item begins; None if there is none, and the end is reached."""
        at = _past_blanks(self._text, at)
        if self._text[at : at + 1] != _CLOSING[opening]:
            return at
        self._end = at + 1
        return None

    def _next(self, at: int, opening: str) -> int | None:
        """Return where the next item may begin; None if the end is reached."""
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
        model: its class.
        document: JSON.
        spend: called with the number of values of free-form JSON that are looked at; it may raise.
        watch: called before each list is validated; what it raises passes through.

    Raises:
        ValidationFailedError: with the first 100 faults, each with its JSON pointer and the bound
            it broke, and the number of the others.

    >>> from lorewell import BookCreate
    >>> parse_model(BookCreate, {"name": "Harbour", "entries": [{"content": 7}]})
    Traceback (most recent call last):
    lorewell.errors.ValidationFailedError: /entries/0/content: Input should be a valid string
    """
    try:
        return model.model_validate(document, context=Validation(spend, watch or _go_on))
    except ValidationError as error:
        faults, more = faults_of(error)
        raise ValidationFailedError.at(*faults, more=more) from error
