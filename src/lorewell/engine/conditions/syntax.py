"""What a condition or key expression is once it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

Operator = Literal[">=", "<=", "==", "!=", ">", "<", "=", "包括"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field of the table beside one value; quotes around the value are gone."""

    field: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class Word:
    """One key of a key expression."""

    text: str


@dataclass(frozen=True, slots=True)
class Not:
    """What must not hold."""

    part: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Two or more parts that must all hold."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more parts of which one must hold."""

    parts: tuple[Expression, ...]


Leaf = Comparison | Word
Expression = Leaf | Not | And | Or


def words_of(expression: Expression) -> Iterator[tuple[str, bool]]:
    """Yield each word from left to right, and whether it is wanted, as `leaves` does."""
    found = leaves(expression)
    yield from ((leaf.text, wanted) for leaf, wanted in found if isinstance(leaf, Word))


def leaves(expression: Expression, *, wanted: bool = True) -> Iterator[tuple[Leaf, bool]]:
    """Yield each comparison or word from left to right, and whether it is wanted to hold.

    Args:
        expression: the whole.
        wanted: whether the whole is; each `not` around a leaf turns that over.
    """
    if isinstance(expression, Comparison | Word):
        yield expression, wanted
    for part in parts_of(expression):
        yield from leaves(part, wanted=wanted != isinstance(expression, Not))


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Return what an expression is made of, from left to right; a leaf has no parts."""
    match expression:
        case Comparison() | Word():
            return ()
        case Not(part):
            return (part,)
        case And(parts) | Or(parts):
            return parts
        case _:
            assert_never(expression)
