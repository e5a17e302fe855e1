"""The syntax tree of conditions and key expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

Operator = Literal[">=", "<=", "==", "!=", ">", "<", "=", "包括"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one field of the table with one value; the value has no quotes around it."""

    field: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class Word:
    """One key of a key expression."""

    text: str


@dataclass(frozen=True, slots=True)
class Not:
    """Negates a part."""

    part: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Holds if all of its two or more parts hold."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Holds if at least one of its two or more parts holds."""

    parts: tuple[Expression, ...]


Leaf = Comparison | Word
Expression = Leaf | Not | And | Or


def words_of(expression: Expression) -> Iterator[tuple[str, bool]]:
    """Yield each word from left to right, and whether it is wanted; see `leaves`."""
    for leaf, wanted in leaves(expression):
        if isinstance(leaf, Word):
            yield leaf.text, wanted


def leaves(expression: Expression, *, wanted: bool = True) -> Iterator[tuple[Leaf, bool]]:
    """Yield each comparison or word from left to right, and whether it is wanted to hold.

    Args:
        expression: the whole expression.
        wanted: whether the whole expression is wanted to hold; each `not` inverts that.
    """
    if isinstance(expression, Comparison | Word):
        yield expression, wanted
    for part in parts_of(expression):
        yield from leaves(part, wanted=wanted != isinstance(expression, Not))


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of an expression, from left to right; a leaf has none."""
    match expression:
        case Comparison() | Word():
            return ()
        case Not(part):
            return (part,)
        case And(parts) | Or(parts):
            return parts
        case _:
            assert_never(expression)
