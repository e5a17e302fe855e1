"""Writes a condition or key expression as text."""

from __future__ import annotations

import re
from typing import Final, assert_never

from lorewell.engine.conditions.parsing import PREFIX, QUOTES
from lorewell.engine.conditions.syntax import And, Comparison, Expression, Not, Or, Word
from lorewell.engine.conditions.truth import is_number

_PLAIN: Final = re.compile(r"\w+")
_WORDS: Final = frozenset({"and", "or", "not", "且", "或", "非"})
_ALONE, _IN_OR, _IN_AND = range(3)  # the context of a part; `not` binds like `and`


def write(expression: Expression) -> str:
    """Return a text that parses to this expression.

    Every parsed expression can be written: a value with all four kinds of closing quotes needed
    none. The quotes may make the text longer than the parser allows.

    >>> from lorewell.engine.conditions.parsing import parse_expression
    >>> write(parse_expression("非（tb.力量≥10 且 tb.态度=友好）"))
    'not (tb.力量 >= 10 and tb.态度 = "友好")'
    """
    return _write(expression, _ALONE)


def _write(expression: Expression, around: int) -> str:
    match expression:
        case Comparison(field, operator, value):
            shown = value if is_number(value) else _quoted(value)
            return f"{PREFIX}{field} {operator} {shown}"
        case Word(text):
            plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
            return text if plain else _quoted(text)
        case Not(part):
            return f"not {_write(part, _IN_AND)}"
        case And(parts):
            joined = " and ".join(_write(part, _IN_AND) for part in parts)
            return joined if around < _IN_AND else f"({joined})"
        case Or(parts):
            joined = " or ".join(_write(part, _IN_OR) for part in parts)
            return joined if around == _ALONE else f"({joined})"
        case _:
            assert_never(expression)


def _quoted(text: str) -> str:
    for opening, closing in QUOTES.items():
        if closing not in text:
            return f"{opening}{text}{closing}"
    return text
