"""Parses conditions and key expressions, or returns the first error and its place.

The parser never backtracks, so it takes time in proportion to the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, cast

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.syntax import And, Comparison, Expression, Not, Operator, Or, Word
from lorewell.model.text import BLANK

MAX_CHARS: Final = 500  # docs/rules/replica.md §4.3
MAX_DEPTH: Final = 30  # nested brackets and negations
PREFIX: Final = "tb."
QUOTES: Final[Mapping[str, str]] = {'"': '"', "'": "'", "“": "”", "「": "」"}

_GAP: Final = f"[{BLANK}]"
_EDGE: Final = rf"(?=[{BLANK}()（）\"'“「]|\Z)"
_OPERATOR: Final = re.compile("[>＞<＜=＝!！][=＝]|[≥≤≠>＞<＜=＝]|包括")  # the longest first
_NARROW: Final = str.maketrans({"＞": ">", "＜": "<", "＝": "=", "！": "!"})
_ALIASES: Final = {"≥": ">=", "≤": "<=", "≠": "!="}
_BLANKS: Final = re.compile(f"{_GAP}*")
_OPEN: Final = re.compile("[(（]")
_CLOSE: Final = re.compile("[)）]")
_AND: Final = re.compile(f"and{_EDGE}|且", re.IGNORECASE)
_OR: Final = re.compile(f"or{_EDGE}|或", re.IGNORECASE)
_ANY_WORD: Final = re.compile(f"(?:and|or|not|且|或|非){_EDGE}", re.IGNORECASE)
# Operators in words count only between blanks, brackets or quotes: a key may start with one.
_LONE_WORD: Final = rf"(?<={_GAP})(?:and|or|not|且|或|非){_EDGE}"
_KEY_END: Final = re.compile(rf"[()（）]|{_LONE_WORD}", re.IGNORECASE)
# Chinese is written without blanks; before a field, such a word can only be an operator.
_JOINED: Final = rf"[且或](?={_GAP}*(?:非{_GAP}*)*(?:tb\.|[(（]))"
_VALUE_END: Final = re.compile(rf"[()（）]|{_LONE_WORD}|{_JOINED}", re.IGNORECASE)
# A field ends before its operator. No field ends in a word such as `and`.
_FIELD_END: Final = re.compile(
    rf"(?P<operator>{_OPERATOR.pattern})"
    rf"|(?<={_GAP})(?:and|or|not|且|或|非)(?:{_EDGE}|(?={_OPERATOR.pattern}))",
    re.IGNORECASE,
)
_SYMBOL: Final = re.compile("[≥≤≠>＞<＜=＝]|[!！][=＝]")


class _FlawError(Exception):
    """Carries a flaw out of the recursive parser."""

    def __init__(self, at: int, detail: str) -> None:
        super().__init__(detail)
        self.flaw = Flaw(at, detail)


def parse_condition(text: str) -> Comparison | Flaw:
    """Parse one comparison under the rules of `replica`: no and, or, not or brackets.

    Everything after the operator is the value, up to the end of the text.

    Source: docs/rules/replica.md §4.3.

    >>> parse_condition('tb.态度 包括 "友"')
    Comparison(field='态度', operator='包括', value='友')
    >>> parse_condition("力量 > 10")
    Flaw(at=0, detail='expected tb. and the name of a field')
    """
    try:
        _check_size(text)
        begin = _skip(text, 0)
        field, operator, at = _field(text, begin, _OPERATOR)
        return Comparison(field, operator, _last_value(text, at))
    except _FlawError as error:
        return error.flaw


def parse_expression(text: str) -> Expression | Flaw:
    """Parse comparisons joined by and, or, not and brackets.

    >>> parse_expression("not (tb.a > 1 or tb.b = 2)")
    Not(part=Or(parts=(Comparison(field='a', operator='>', value='1'), \
Comparison(field='b', operator='=', value='2'))))
    >>> parse_expression("tb.a > 1 and")
    Flaw(at=12, detail='expected tb. and the name of a field')
    """
    return _parse(text, _comparison, re.compile(f"not{_EDGE}|非", re.IGNORECASE))


def parse_key_expression(text: str) -> Expression | Flaw:
    """Parse keys joined by and, or, not and brackets.

    >>> parse_key_expression('(灯塔 且 "and") or king')
    Or(parts=(And(parts=(Word(text='灯塔'), Word(text='and'))), Word(text='king')))
    """
    return _parse(text, _word, re.compile(f"(?:not|非){_EDGE}", re.IGNORECASE))


def _parse(
    text: str, operand: Callable[[_Parser], Expression], negation: re.Pattern[str]
) -> Expression | Flaw:
    try:
        _check_size(text)
        parser = _Parser(text, operand, negation)
        expression = parser.either(MAX_DEPTH)
        if parser.at < len(text):
            parser.fail("expected and, or, or the end")
    except _FlawError as error:
        return error.flaw
    return expression


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARS:
        raise _FlawError(MAX_CHARS, f"must be at most {MAX_CHARS} characters long")


def _skip(text: str, at: int) -> int:
    """Return the end of the blanks at `at`."""
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


class _Parser:
    """A recursive descent parser of one text.

    Attributes:
        at: the current place; blanks are skipped together with the token before them.
    """

    def __init__(
        self, text: str, operand: Callable[[_Parser], Expression], negation: re.Pattern[str]
    ) -> None:
        self.text = text
        self.at = _skip(text, 0)
        self._operand = operand
        self._negation = negation

    def fail(self, detail: str) -> NoReturn:
        raise _FlawError(self.at, detail)

    def take(self, pattern: re.Pattern[str]) -> bool:
        """Consume a match of the pattern at the current place; return whether there was one."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return False
        self.move(found.end())
        return True

    def move(self, at: int) -> None:
        self.at = _skip(self.text, at)

    def either(self, room: int) -> Expression:
        parts = [self._both(room)]
        while self.take(_OR):
            parts.append(self._both(room))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self, room: int) -> Expression:
        parts = [self._part(room)]
        while self.take(_AND):
            parts.append(self._part(room))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _part(self, room: int) -> Expression:
        if room == 0:
            self.fail(f"brackets and negations nest deeper than {MAX_DEPTH}")
        if self.take(self._negation):
            return Not(self._part(room - 1))
        begin = self.at
        if not self.take(_OPEN):
            return self._operand(self)
        inner = self.either(room - 1)
        if not self.take(_CLOSE):
            if self.at == len(self.text):
                raise _FlawError(begin, "this bracket is never closed")
            self.fail("expected and, or, or a closing bracket")
        return inner


def _comparison(parser: _Parser) -> Comparison:
    field, operator, at = _field(parser.text, parser.at, _FIELD_END)
    parser.move(at)
    return Comparison(field, operator, _operand_text(parser, _VALUE_END, "a value"))


def _word(parser: _Parser) -> Word:
    if _ANY_WORD.match(parser.text, parser.at):
        parser.fail("expected a key; put quotes around a key that is such a word")
    return Word(_operand_text(parser, _KEY_END, "a key"))


def _field(text: str, begin: int, end: re.Pattern[str]) -> tuple[str, Operator, int]:
    """Parse a field and its operator at `begin`; return both and the end of the operator."""
    if not text.startswith(PREFIX, begin):
        raise _FlawError(begin, "expected tb. and the name of a field")
    begin += len(PREFIX)
    found = end.search(text, begin + 1)
    if found is None or (end is _FIELD_END and found["operator"] is None):
        at = len(text) if found is None else found.start()
        raise _FlawError(at, "expected one of >= <= == != > < = 包括")
    field = text[begin : found.start()].strip(BLANK)
    if not field or _SYMBOL.match(text, begin):
        raise _FlawError(begin, "the name of the field is missing")
    written = found[0].translate(_NARROW)
    return field, cast("Operator", _ALIASES.get(written, written)), found.end()


def _operand_text(parser: _Parser, end: re.Pattern[str], what: str) -> str:
    """Parse a value or key: in quotes up to the closing quote, else up to a bracket or operator."""
    text, begin = parser.text, parser.at
    closing = QUOTES.get(text[begin : begin + 1])
    if closing is not None:
        stop = text.find(closing, begin + 1)
        if stop < 0:
            parser.fail("this quote is never closed")
        parser.move(stop + 1)
        content = text[begin + 1 : stop]
    else:
        found = end.search(text, begin)
        stop = len(text) if found is None else found.start()
        content = text[begin:stop].strip(BLANK)
        if not content:
            parser.fail(f"expected {what}")
        if end is _VALUE_END and (symbol := _SYMBOL.search(content)):
            at = begin + symbol.start()
            raise _FlawError(at, "a value that holds such a sign must stand in quotes")
        parser.move(stop)
    if end is _KEY_END and not content.strip(BLANK):
        raise _FlawError(begin, "a blank key never matches")
    return content


def _last_value(text: str, at: int) -> str:
    """Return the rest of the text as a value; quotes around it are removed."""
    at = _skip(text, at)
    rest = text[at:].rstrip(BLANK)
    if not rest:
        raise _FlawError(at, "expected a value")
    closing = QUOTES.get(rest[0])
    if closing is None:
        return rest
    stop = rest.rfind(closing, 1)
    if stop < 0:
        raise _FlawError(at, "this quote is never closed")
    if stop < len(rest) - 1:
        raise _FlawError(at + stop + 1, "nothing may follow the closing quote")
    return rest[1:stop]
