"""From a condition or key expression back to its text."""

from __future__ import annotations

import re
from typing import Final, assert_never

from lorewell.engine.conditions.parsing import PREFIX, QUOTES
from lorewell.engine.conditions.syntax import And, Comparison, Expression, Not, Or, Word
from lorewell.engine.conditions.truth import is_number

_PLAIN: Final = re.compile(r"\w+")
_WORDS: Final = frozenset({"and", "or", "not", "且", "或", "非"})
_ALONE, _IN_OR, _IN_AND = range(3)  # what stands around a part; `not` binds as `and` does


def write(expression: Expression) -> str:
    """Return a text that is read as this very expression.

    What was read can always be written: a text with all four kinds of closing quotes was plain.
    With its quotes it may be longer than a text may be.

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
